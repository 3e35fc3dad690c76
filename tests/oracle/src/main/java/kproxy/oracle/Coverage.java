package kproxy.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The cases that one message version needs, has planned, and has shown.
 *
 * <p>Shown means found in the JSON that Kafka printed of the bytes it wrote; only ABSENT and DEFAULT, which look alike
 * there, are told apart by the JSON that was given to it.
 */
final class Coverage {
    private final Map<String, EnumSet<Case>> wanted = new TreeMap<>();
    private final Map<String, EnumSet<Case>> planned = new HashMap<>();
    private final Map<String, EnumSet<Case>> shown = new HashMap<>();
    private final Map<Case, Long> counts = new EnumMap<>(Case.class);
    private final int version;

    Coverage(Definition definition, int version) {
        this.version = version;
        want(definition.fields(), "");
    }

    /** The cases that a value of the field can be, null and tagged apart. */
    static EnumSet<Case> valueCases(String type, boolean struct) {
        if (struct) {
            return EnumSet.noneOf(Case.class);
        }
        return switch (type) {
            case "bool" -> EnumSet.of(Case.FALSE, Case.TRUE);
            case "int8", "int16", "int32", "int64" ->
                EnumSet.of(Case.MIN, Case.MAX, Case.ZERO, Case.MINUS_ONE, Case.ANY);
            case "uint16", "uint32" -> EnumSet.of(Case.ZERO, Case.MAX, Case.ANY);
            case "float64" ->
                EnumSet.of(Case.MIN, Case.MAX, Case.ZERO, Case.MINUS_ONE, Case.ANY, Case.NOT_FINITE);
            case "uuid" -> EnumSet.of(Case.ZERO, Case.MAX, Case.ANY);
            case "string" -> EnumSet.of(Case.NO_TEXT, Case.ASCII, Case.NON_ASCII, Case.LONG);
            case "bytes" -> EnumSet.of(Case.NO_BYTES, Case.BYTES, Case.LONG);
            case "records" -> EnumSet.of(Case.NO_RECORDS);
            default -> throw new IllegalArgumentException("type " + type);
        };
    }

    private void want(List<Definition.Field> fields, String above) {
        for (Definition.Field field : fields) {
            if (!field.versions().contains(version)) {
                continue;
            }
            String path = above + field.name();
            EnumSet<Case> cases = EnumSet.noneOf(Case.class);
            boolean tagged = field.tagged().contains(version);
            if (tagged) {
                cases.addAll(EnumSet.of(Case.ABSENT, Case.DEFAULT, Case.SET));
            }
            if (field.nullable().contains(version)) {
                cases.add(Case.PRESENT);
                if (!(tagged && field.defaultsToNull())) {
                    cases.add(Case.NULL);
                }
            }
            String element = path;
            if (field.array()) {
                cases.addAll(EnumSet.of(Case.ONE, Case.MANY));
                if (!tagged || field.defaultsToNull()) {
                    cases.add(Case.EMPTY);
                }
                element = path + "[]";
            }
            wanted.computeIfAbsent(path, key -> EnumSet.noneOf(Case.class)).addAll(cases);
            EnumSet<Case> values = valueCases(field.type(), field.fields() != null);
            if (tagged && !field.array()) {
                dropDefault(field, values);
            }
            wanted.computeIfAbsent(element, key -> EnumSet.noneOf(Case.class)).addAll(values);
            if (field.fields() != null) {
                want(field.fields(), element + ".");
            }
        }
    }

    /** A tagged field is not written with its default, so that this value is never on the wire. */
    private static void dropDefault(Definition.Field field, EnumSet<Case> values) {
        if (field.fields() != null || field.defaultsToNull()) {
            return;
        }
        Case standard = Values.caseOf(field.type(), Values.fallback(field, 0));
        if (standard != Case.ANY) {
            values.remove(standard);
        }
    }

    EnumSet<Case> pending(String path, EnumSet<Case> choices) {
        EnumSet<Case> pending = EnumSet.copyOf(choices);
        pending.retainAll(wanted.get(path));
        pending.removeAll(planned.getOrDefault(path, EnumSet.noneOf(Case.class)));
        return pending;
    }

    void plan(String path, Case planned) {
        this.planned.computeIfAbsent(path, key -> EnumSet.noneOf(Case.class)).add(planned);
    }

    /** Forget what was only planned, so that it is tried again. */
    void replan() {
        planned.clear();
        shown.forEach((path, cases) -> planned.put(path, EnumSet.copyOf(cases)));
    }

    private void show(String path, Case seen) {
        shown.computeIfAbsent(path, key -> EnumSet.noneOf(Case.class)).add(seen);
        counts.merge(seen, 1L, Long::sum);
    }

    /**
     * Count what a message shows, and compare it with what was asked for.
     *
     * @param given the JSON handed to Kafka
     * @param read the JSON that Kafka printed of the bytes
     * @throws IllegalStateException where the two differ in more than a tagged field's default
     */
    void count(List<Definition.Field> fields, JsonNode given, JsonNode read, String above) {
        int known = 0;
        for (Definition.Field field : fields) {
            if (!field.versions().contains(version)) {
                continue;
            }
            String path = above + field.name();
            JsonNode value = read.get(field.name());
            if (value == null && field.type().equals("records")) {
                value = read.get(field.name() + "SizeInBytes");
            }
            if (field.tagged().contains(version)) {
                if (value == null) {
                    show(path, given.has(field.name()) ? Case.DEFAULT : Case.ABSENT);
                    continue;
                }
                show(path, Case.SET);
            }
            if (value == null || !given.has(field.name())) {
                throw new IllegalStateException(path + " is missing in version " + version);
            }
            known++;
            JsonNode wish = given.get(field.name());
            if (value.isNull() != wish.isNull()) {
                throw new IllegalStateException(path + ": " + wish + " became " + value);
            }
            if (value.isNull()) {
                show(path, Case.NULL);
                continue;
            }
            if (field.nullable().contains(version)) {
                show(path, Case.PRESENT);
            }
            if (!field.array()) {
                countValue(field, wish, value, path);
                continue;
            }
            if (value.size() != wish.size()) {
                throw new IllegalStateException(path + ": " + wish.size() + " entries became " + value.size());
            }
            show(path, value.isEmpty() ? Case.EMPTY : value.size() == 1 ? Case.ONE : Case.MANY);
            for (int i = 0; i < value.size(); i++) {
                countValue(field, wish.get(i), value.get(i), path + "[]");
            }
        }
        if (known != read.size()) {
            throw new IllegalStateException(above + ": the definition gives " + known + " of the fields " + read);
        }
    }

    private void countValue(Definition.Field field, JsonNode given, JsonNode read, String path) {
        if (field.fields() != null) {
            count(field.fields(), given, read, path + ".");
        } else if (field.type().equals("records")) {
            show(path, Case.NO_RECORDS);
        } else {
            if (!given.asText().equals(read.asText())) {
                throw new IllegalStateException(path + ": " + given + " became " + read);
            }
            show(path, Values.caseOf(field.type(), read));
        }
    }

    /** What no message showed, as "path CASE". */
    List<String> missing() {
        List<String> missing = new ArrayList<>();
        wanted.forEach((path, cases) -> {
            EnumSet<Case> rest = EnumSet.copyOf(cases);
            rest.removeAll(shown.getOrDefault(path, EnumSet.noneOf(Case.class)));
            rest.forEach(one -> missing.add(path + " " + one));
        });
        return missing;
    }

    /** Number of (field, case) pairs wanted. */
    int size() {
        return wanted.values().stream().mapToInt(EnumSet::size).sum();
    }

    Map<Case, Long> counts() {
        return counts;
    }
}
