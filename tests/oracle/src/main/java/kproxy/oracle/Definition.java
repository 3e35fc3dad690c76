package kproxy.oracle;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A message definition of a Kafka jar, as far as random values need it.
 *
 * @param home package of the class
 * @param valid false where the release keeps the definition but speaks no version of it and has no class for it
 */
record Definition(String name, String kind, String home, boolean valid, Versions flexible, List<Field> fields) {

    private static final Map<String, String> PACKAGES = Map.of(
            "kafka-clients", "org.apache.kafka.common.message.",
            "kafka-group-coordinator", "org.apache.kafka.coordinator.group.generated.",
            "kafka-transaction-coordinator", "org.apache.kafka.coordinator.transaction.generated.",
            "kafka-share-coordinator", "org.apache.kafka.coordinator.share.generated.",
            "kafka-metadata", "org.apache.kafka.common.metadata.",
            "kafka-storage", "org.apache.kafka.server.log.remote.metadata.storage.generated.");

    private static final Pattern JAR = Pattern.compile("([a-z-]+)-[0-9.]+\\.jar");
    private static final Pattern ENTRY = Pattern.compile("(common/)?(message|metadata)/[A-Za-z]+\\.json");

    /** A closed range of versions, empty where low is above high. */
    record Versions(int low, int high) {
        static final Versions NONE = new Versions(1, 0);

        static Versions parse(String text) {
            if (text.equals("none")) {
                return NONE;
            }
            if (text.endsWith("+")) {
                return new Versions(Integer.parseInt(text.substring(0, text.length() - 1)), Short.MAX_VALUE);
            }
            int dash = text.indexOf('-');
            return dash < 0
                    ? new Versions(Integer.parseInt(text), Integer.parseInt(text))
                    : new Versions(Integer.parseInt(text.substring(0, dash)), Integer.parseInt(text.substring(dash + 1)));
        }

        boolean contains(int version) {
            return low <= version && version <= high;
        }
    }

    /** A field; {@code type} is the element's where {@code array}, {@code fields} are a struct's, else null. */
    record Field(
            String name,
            String type,
            boolean array,
            Versions versions,
            Versions nullable,
            Versions tagged,
            JsonNode fallback,
            List<Field> fields) {

        /** Whether the definition's default is null, which is the string: Kafka's generator takes a JSON null for none. */
        boolean defaultsToNull() {
            return fallback != null && fallback.asText().equals("null");
        }
    }

    /** Class of the generated message, e.g. FetchRequestData or ConsumerProtocolSubscription. */
    String className() {
        return home + name + (List.of("request", "response", "header").contains(kind) ? "Data" : "");
    }

    /** All definitions of the Kafka jars on the class path, by name. */
    static Map<String, Definition> all() throws IOException {
        ObjectMapper mapper = new ObjectMapper();
        mapper.configure(JsonParser.Feature.ALLOW_COMMENTS, true);
        Map<String, Definition> found = new TreeMap<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            Matcher jar = JAR.matcher(Path.of(path).getFileName().toString());
            String home = jar.matches() ? PACKAGES.get(jar.group(1)) : null;
            if (home == null) {
                continue;
            }
            try (JarFile file = new JarFile(path)) {
                for (JarEntry entry : (Iterable<JarEntry>) file.stream()::iterator) {
                    if (ENTRY.matcher(entry.getName()).matches()) {
                        try (InputStream stream = file.getInputStream(entry)) {
                            Definition definition = parse(mapper.readTree(stream), home);
                            found.put(definition.name, definition);
                        }
                    }
                }
            }
        }
        // What a broker keeps of producers in a file of its own.
        found.remove("ProducerSnapshot");
        return found;
    }

    private static Definition parse(JsonNode node, String home) {
        Map<String, JsonNode> common = new HashMap<>();
        for (JsonNode struct : node.path("commonStructs")) {
            common.put(struct.get("name").asText(), struct.get("fields"));
        }
        return new Definition(
                node.get("name").asText(),
                node.get("type").asText(),
                home,
                !node.get("validVersions").asText().equals("none"),
                Versions.parse(node.path("flexibleVersions").asText("none")),
                fields(node.path("fields"), common));
    }

    private static List<Field> fields(JsonNode nodes, Map<String, JsonNode> common) {
        List<Field> fields = new ArrayList<>();
        for (JsonNode node : nodes) {
            String type = node.get("type").asText();
            boolean array = type.startsWith("[]");
            if (array) {
                type = type.substring(2);
            }
            JsonNode inner = node.has("fields") ? node.get("fields") : common.get(type);
            String name = node.get("name").asText();
            fields.add(new Field(
                    Character.toLowerCase(name.charAt(0)) + name.substring(1),
                    type,
                    array,
                    Versions.parse(node.path("versions").asText(node.path("taggedVersions").asText("0+"))),
                    Versions.parse(node.path("nullableVersions").asText("none")),
                    Versions.parse(node.path("taggedVersions").asText("none")),
                    node.hasNonNull("default") ? node.get("default") : null,
                    inner == null ? null : fields(inner, common)));
        }
        return fields;
    }
}
