import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A {@code regroup serve} for one test, which looks and acts through its control port.
 *
 * <p>The command is {@code regroup}, or that of the environment variable REGROUP.
 */
final class Regroup implements AutoCloseable {
    private final HttpClient http = HttpClient.newHttpClient();
    private final ObjectMapper json = new ObjectMapper();
    private final Process server;
    private final String control;
    final String bootstrapServers;

    Regroup(String... options) throws IOException {
        Path store = Files.createTempDirectory("regroup").resolve("groups.db");
        List<String> words = new ArrayList<>(List.of(
            System.getenv().getOrDefault("REGROUP", "regroup"), "serve", "--port", "0", "--control", "127.0.0.1:0",
            "--store", store.toString(), "--set", "group.initial.rebalance.delay.ms=0", "--log-level", "error"));
        words.addAll(List.of(options));
        server = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = server.inputReader();
        bootstrapServers = address(lines, "listening on ");
        control = address(lines, "control on ");
    }

    private static String address(BufferedReader lines, String before) throws IOException {
        String line = lines.readLine();
        if (line == null || !line.startsWith(before)) {
            throw new IOException("regroup has not started: " + line);
        }
        return line.substring(before.length());
    }

    /** Asks for something, and waits for it if the path says so. */
    JsonNode look(String path, Map<String, Object> query) throws Exception {
        String words = query.entrySet().stream()
            .map(each -> each.getKey() + "=" + URLEncoder.encode(each.getValue().toString(), StandardCharsets.UTF_8))
            .collect(Collectors.joining("&"));
        return answer(path, HttpRequest.newBuilder(URI.create(control + path + "?" + words)).GET());
    }

    /** Changes something; it is durable when this returns. */
    JsonNode act(String path, Map<String, Object> body) throws Exception {
        HttpRequest.BodyPublisher content = HttpRequest.BodyPublishers.ofString(json.writeValueAsString(body));
        return answer(path, HttpRequest.newBuilder(URI.create(control + path)).POST(content)
            .header("content-type", "application/json"));
    }

    private JsonNode answer(String path, HttpRequest.Builder request) throws Exception {
        HttpResponse<String> response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new AssertionError(path + ": " + response.body());
        }
        return json.readTree(response.body());
    }

    @Override
    public void close() throws InterruptedException {
        server.destroy();
        server.waitFor();
    }
}
