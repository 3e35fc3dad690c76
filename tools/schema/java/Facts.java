import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** Prints what the enums ApiKeys and Errors know and the definition files do not, one JSON object a line. */
public final class Facts {
    public static void main(String[] args) {
        for (ApiKeys api : ApiKeys.values()) {
            System.out.printf(
                "{\"api\":%d,\"name\":\"%s\",\"unstable\":%b,\"versions\":[", api.id, api.name,
                api.messageType.latestVersionUnstable());
            String comma = "";
            for (short version = oldest(api); version <= newest(api); version++) {
                System.out.printf(
                    "%s[%d,%d,%d]", comma, version, api.requestHeaderVersion(version),
                    api.responseHeaderVersion(version));
                comma = ",";
            }
            System.out.println("]}");
        }
        for (Errors error : Errors.values()) {
            Throwable exception = error.exception();
            System.out.printf(
                "{\"error\":%d,\"name\":\"%s\",\"retriable\":%b,\"refresh_metadata\":%b,\"exception\":%s}%n",
                error.code(), error.name(), exception instanceof RetriableException,
                exception instanceof InvalidMetadataException,
                exception == null ? "null" : "\"" + exception.getClass().getSimpleName() + "\"");
        }
    }

    private static short oldest(ApiKeys api) {
        return api.messageType.lowestSupportedVersion();
    }

    private static short newest(ApiKeys api) {
        return api.messageType.highestSupportedVersion(true);
    }
}
