package kproxy.oracle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;

/**
 * What a broker reads in the first message of OAUTHBEARER.
 *
 * <p>Takes lines of base64 and answers each with a line of JSON: the token, the authorization id and the extensions, or
 * a string that says what is wrong.
 */
public final class BearerJudge {
    private BearerJudge() {}

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(mapper.writeValueAsString(read(Base64.getDecoder().decode(line))));
        }
    }

    private static Object read(byte[] message) {
        try {
            OAuthBearerClientInitialResponse found = new OAuthBearerClientInitialResponse(message);
            return Map.of(
                    "token", found.tokenValue(),
                    "authorizationId", found.authorizationId(),
                    "extensions", found.extensions().map());
        } catch (SaslException refused) {
            return refused.toString();
        }
    }
}
