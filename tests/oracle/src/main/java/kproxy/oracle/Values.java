package kproxy.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.EnumSet;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;

/** Random JSON for one message version, led by the cases that are still to be shown. */
final class Values {
    /** How large the containers of a message become. */
    enum Size {
        /** Everything absent, null or empty where it may be. */
        BARE,
        MIXED,
        /** Everything there, so that what lies deepest is reached. */
        FULL
    }

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final String PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    private static final String[] STRANGE = {
        "é", "ß", "漢", "Ж", "ا", "\u0000", "\n", "\"", "\\", "\u007f", "\u0085", "\u2028", "\ufeff", "\uffff", "\ufffd",
        "\ud83d\ude00", "\ud800\udc00", "\udbff\udfff", "e\u0301"
    };
    private static final Uuid ONES = new Uuid(-1L, -1L);

    private final Random random;
    private final Coverage coverage;
    private final int version;
    private Size size = Size.MIXED;

    Values(Random random, Coverage coverage, int version) {
        this.random = random;
        this.coverage = coverage;
        this.version = version;
    }

    ObjectNode message(Definition definition, Size size) {
        this.size = size;
        return struct(definition.fields(), "", 0);
    }

    private ObjectNode struct(List<Definition.Field> fields, String above, int depth) {
        ObjectNode node = JSON.objectNode();
        for (Definition.Field field : fields) {
            if (field.versions().contains(version)) {
                put(node, field, above + field.name(), depth);
            }
        }
        return node;
    }

    private void put(ObjectNode node, Definition.Field field, String path, int depth) {
        if (field.tagged().contains(version)) {
            Case tagged = choose(path, EnumSet.of(Case.ABSENT, Case.DEFAULT, Case.SET), Case.ABSENT, Case.SET);
            if (tagged == Case.ABSENT) {
                return;
            }
            if (tagged == Case.DEFAULT) {
                node.set(field.name(), fallback(field, version));
                return;
            }
        }
        if (field.nullable().contains(version)
                && choose(path, EnumSet.of(Case.NULL, Case.PRESENT), Case.NULL, Case.PRESENT) == Case.NULL) {
            node.set(field.name(), JSON.nullNode());
            return;
        }
        if (!field.array()) {
            node.set(field.name(), value(field, path, depth));
            return;
        }
        int length =
                switch (choose(path, EnumSet.of(Case.EMPTY, Case.ONE, Case.MANY), Case.EMPTY, Case.MANY)) {
                    case EMPTY -> 0;
                    case ONE -> 1;
                    default -> depth > 1 ? 2 : 2 + random.nextInt(3);
                };
        if (length > 1 && field.fields() == null && random.nextInt(20) == 0) {
            length = 126 + random.nextInt(4);
        }
        ArrayNode entries = JSON.arrayNode(length);
        for (int i = 0; i < length; i++) {
            entries.add(value(field, path + "[]", depth + 1));
        }
        node.set(field.name(), entries);
    }

    private Case choose(String path, EnumSet<Case> cases, Case least, Case most) {
        if (size == Size.BARE) {
            return least;
        }
        EnumSet<Case> pending = coverage.pending(path, cases);
        Case chosen = most;
        if (!pending.isEmpty() && (size == Size.MIXED || pending.contains(most))) {
            chosen = pending.contains(most) ? most : any(pending);
        } else if (size == Size.MIXED && random.nextInt(3) == 0) {
            chosen = any(cases);
        }
        coverage.plan(path, chosen);
        return chosen;
    }

    private Case any(EnumSet<Case> cases) {
        int skip = random.nextInt(cases.size());
        return cases.stream().skip(skip).findFirst().orElseThrow();
    }

    private JsonNode value(Definition.Field field, String path, int depth) {
        if (field.fields() != null) {
            return struct(field.fields(), path + ".", depth);
        }
        EnumSet<Case> cases = Coverage.valueCases(field.type(), false);
        EnumSet<Case> pending = coverage.pending(path, cases);
        Case chosen;
        if (pending.isEmpty()) {
            // Long values once a field suffice.
            cases.remove(random.nextInt(10) == 0 ? null : Case.LONG);
            chosen = any(cases);
        } else {
            chosen = any(pending);
        }
        coverage.plan(path, chosen);
        return make(field.type(), chosen);
    }

    private JsonNode make(String type, Case chosen) {
        return switch (type) {
            case "bool" -> JSON.booleanNode(chosen == Case.TRUE);
            case "int8" -> JSON.numberNode((byte) integer(chosen, Byte.MIN_VALUE, Byte.MAX_VALUE));
            case "int16" -> JSON.numberNode((short) integer(chosen, Short.MIN_VALUE, Short.MAX_VALUE));
            case "uint16" -> JSON.numberNode((int) integer(chosen, 0, 0xffff));
            case "int32" -> JSON.numberNode((int) integer(chosen, Integer.MIN_VALUE, Integer.MAX_VALUE));
            case "uint32" -> JSON.numberNode(integer(chosen, 0, 0xffffffffL));
            case "int64" -> JSON.numberNode(integer(chosen, Long.MIN_VALUE, Long.MAX_VALUE));
            case "float64" -> JSON.numberNode(real(chosen));
            case "uuid" -> JSON.textNode(
                    (chosen == Case.ZERO
                                    ? Uuid.ZERO_UUID
                                    : chosen == Case.MAX ? ONES : new Uuid(random.nextLong(), random.nextLong()))
                            .toString());
            case "string" -> JSON.textNode(text(chosen));
            case "bytes" -> JSON.binaryNode(bytes(
                    chosen == Case.NO_BYTES ? 0 : chosen == Case.LONG ? 128 + random.nextInt(200) : 1 + random.nextInt(20)));
            case "records" -> JSON.binaryNode(new byte[0]);
            default -> throw new IllegalArgumentException("type " + type);
        };
    }

    private long integer(Case chosen, long least, long most) {
        return switch (chosen) {
            case MIN -> least;
            case MAX -> most;
            case ZERO -> 0;
            case MINUS_ONE -> -1;
            default -> {
                long value = switch (random.nextInt(3)) {
                    case 0 -> random.nextInt(100);
                    case 1 -> random.nextLong() >> random.nextInt(64);
                    default -> random.nextLong();
                };
                yield least == Long.MIN_VALUE ? value : least + Math.floorMod(value - least, most - least + 1);
            }
        };
    }

    private double real(Case chosen) {
        return switch (chosen) {
            case MIN -> -Double.MAX_VALUE;
            case MAX -> Double.MAX_VALUE;
            case ZERO -> 0;
            case MINUS_ONE -> -1;
            case NOT_FINITE -> new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}[random.nextInt(3)];
            default -> new double[] {random.nextGaussian(), -0.0, Double.MIN_VALUE, random.nextLong(), 1e21, 1e-7}[
                    random.nextInt(6)];
        };
    }

    private String text(Case chosen) {
        if (chosen == Case.NO_TEXT) {
            return "";
        }
        int length = chosen == Case.LONG
                ? 128 + random.nextInt(100)
                : random.nextInt(15) == 0 ? 124 + random.nextInt(4) : 1 + random.nextInt(12);
        boolean strange = chosen == Case.NON_ASCII || chosen == Case.LONG && random.nextBoolean();
        StringBuilder text = new StringBuilder();
        if (strange) {
            text.append(STRANGE[random.nextInt(5)]);
        }
        while (text.length() < length) {
            if (strange && random.nextInt(3) == 0) {
                text.append(STRANGE[random.nextInt(STRANGE.length)]);
            } else {
                text.append(PLAIN.charAt(random.nextInt(PLAIN.length())));
            }
        }
        return text.toString();
    }

    byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** The value that Kafka assumes where the field is not given. */
    static JsonNode fallback(Definition.Field field, int version) {
        if (field.defaultsToNull()) {
            return JSON.nullNode();
        }
        if (field.array()) {
            return JSON.arrayNode();
        }
        if (field.fields() != null) {
            ObjectNode node = JSON.objectNode();
            for (Definition.Field inner : field.fields()) {
                if (inner.versions().contains(version)) {
                    node.set(inner.name(), fallback(inner, version));
                }
            }
            return node;
        }
        String text = field.fallback() == null ? "" : field.fallback().asText();
        return switch (field.type()) {
            case "bool" -> JSON.booleanNode(text.equals("true"));
            case "int8" -> JSON.numberNode(text.isEmpty() ? 0 : Byte.decode(text));
            case "int16" -> JSON.numberNode(text.isEmpty() ? 0 : Short.decode(text));
            case "uint16", "int32" -> JSON.numberNode(text.isEmpty() ? 0 : Integer.decode(text));
            case "uint32", "int64" -> JSON.numberNode(text.isEmpty() ? 0 : Long.decode(text));
            case "float64" -> JSON.numberNode(text.isEmpty() ? 0.0 : Double.parseDouble(text));
            case "uuid" -> JSON.textNode(text.isEmpty() ? Uuid.ZERO_UUID.toString() : text);
            case "string" -> JSON.textNode(text);
            case "bytes", "records" -> JSON.binaryNode(new byte[0]);
            default -> throw new IllegalArgumentException("type " + field.type());
        };
    }

    /** Which case a value is. */
    static Case caseOf(String type, JsonNode value) {
        switch (type) {
            case "bool":
                return value.asBoolean() ? Case.TRUE : Case.FALSE;
            case "string": {
                String text = value.asText();
                return text.isEmpty()
                        ? Case.NO_TEXT
                        : text.length() >= 128
                                ? Case.LONG
                                : text.getBytes(StandardCharsets.UTF_8).length == text.length()
                                        ? Case.ASCII
                                        : Case.NON_ASCII;
            }
            case "bytes": {
                int length = Base64.getDecoder().decode(value.asText()).length;
                return length == 0 ? Case.NO_BYTES : length >= 128 ? Case.LONG : Case.BYTES;
            }
            case "uuid":
                return value.asText().equals(Uuid.ZERO_UUID.toString())
                        ? Case.ZERO
                        : value.asText().equals(ONES.toString()) ? Case.MAX : Case.ANY;
            case "float64": {
                double real = value.doubleValue();
                return !Double.isFinite(real)
                        ? Case.NOT_FINITE
                        : real == -Double.MAX_VALUE
                                ? Case.MIN
                                : real == Double.MAX_VALUE
                                        ? Case.MAX
                                        : real == 0 ? Case.ZERO : real == -1 ? Case.MINUS_ONE : Case.ANY;
            }
            case "records":
                return Case.NO_RECORDS;
            default:
                return integerCase(type, value.longValue());
        }
    }

    private static Case integerCase(String type, long value) {
        long least =
                switch (type) {
                    case "int8" -> Byte.MIN_VALUE;
                    case "int16" -> Short.MIN_VALUE;
                    case "int32" -> Integer.MIN_VALUE;
                    case "int64" -> Long.MIN_VALUE;
                    default -> 0;
                };
        long most =
                switch (type) {
                    case "int8" -> Byte.MAX_VALUE;
                    case "int16" -> Short.MAX_VALUE;
                    case "uint16" -> 0xffff;
                    case "int32" -> Integer.MAX_VALUE;
                    case "uint32" -> 0xffffffffL;
                    default -> Long.MAX_VALUE;
                };
        if (value == 0) {
            return Case.ZERO;
        }
        if (value == most) {
            return Case.MAX;
        }
        if (value == least) {
            return Case.MIN;
        }
        return value == -1 ? Case.MINUS_ONE : Case.ANY;
    }
}
