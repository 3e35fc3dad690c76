package kproxy.oracle;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.message.RequestHeaderData;

/**
 * A message definition of the kafka-clients jar, as far as random values need it.
 *
 * @param valid false where the release keeps the definition but speaks no version of it and has no class for it
 */
record Definition(String name, String kind, boolean valid, Versions flexible, List<Field> fields) {

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

        /** Whether the definition's default is null. */
        boolean defaultsToNull() {
            return fallback != null && fallback.asText().equals("null");
        }
    }

    /** Class of the generated message, e.g. FetchRequestData or ConsumerProtocolSubscription. */
    String className() {
        String suffix = kind.equals("data") ? "" : "Data";
        return "org.apache.kafka.common.message." + name + suffix;
    }

    /** All definitions of the kafka-clients jar on the class path, by name. */
    static Map<String, Definition> all() throws IOException, URISyntaxException {
        ObjectMapper mapper = new ObjectMapper();
        mapper.configure(JsonParser.Feature.ALLOW_COMMENTS, true);
        Path jar = Path.of(
                RequestHeaderData.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Map<String, Definition> found = new TreeMap<>();
        try (JarFile file = new JarFile(jar.toFile())) {
            for (JarEntry entry : (Iterable<JarEntry>) file.stream()::iterator) {
                if (entry.getName().startsWith("common/message/") && entry.getName().endsWith(".json")) {
                    try (InputStream stream = file.getInputStream(entry)) {
                        Definition definition = parse(mapper.readTree(stream));
                        found.put(definition.name, definition);
                    }
                }
            }
        }
        return found;
    }

    private static Definition parse(JsonNode node) {
        Map<String, JsonNode> common = new HashMap<>();
        for (JsonNode struct : node.path("commonStructs")) {
            common.put(struct.get("name").asText(), struct.get("fields"));
        }
        return new Definition(
                node.get("name").asText(),
                node.get("type").asText(),
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
                    Versions.parse(node.path("versions").asText("0+")),
                    Versions.parse(node.path("nullableVersions").asText("none")),
                    Versions.parse(node.path("taggedVersions").asText("none")),
                    node.get("default"),
                    inner == null ? null : fields(inner, common)));
        }
        return fields;
    }
}
