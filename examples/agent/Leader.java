import java.net.URI;
import java.net.http.*;
import java.sql.*;

public class Leader {
    static Statement guarded, direct;
    static String term;

    static String get(String event, String field) { // any JSON library does it better
        return event.contains("\"" + field + "\":\"") ? event.replaceAll(".*\"" + field + "\":\"([^\"]*)\".*", "$1") : "";
    }

    static void on(String event) throws SQLException {
        System.out.println(get(event, "event") + " " + get(event, "cause"));
        if (get(event, "event").equals("leading")) {
            guarded = DriverManager.getConnection(System.getenv("GUARDED_JDBC") + "&options=" + get(event, "PGOPTIONS").replace(" ", "%20")).createStatement();
            direct = DriverManager.getConnection(System.getenv("DIRECT_JDBC")).createStatement();
            term = get(event, "pass");
        }
        if (get(event, "event").matches("leading|alive")) {
            guarded.execute("insert into ledger (note) values ('java')");
            direct.execute("begin; select ringfence.enter('" + term + "'); insert into ledger (note) values ('java'); commit");
        }
    }

    public static void main(String[] args) throws Exception {
        var ask = HttpRequest.newBuilder(URI.create(System.getenv("AGENT") + "/v1/terms"))
            .headers("Content-Type", "application/json", "Authorization", "Bearer " + System.getenv("LEADER_HTTP_TOKEN"))
            .POST(HttpRequest.BodyPublishers.ofString("{\"resource\": \"orders\", \"holder\": \"java\"}")).build();
        var events = HttpClient.newHttpClient().send(ask, HttpResponse.BodyHandlers.ofLines()).body().iterator();
        while (events.hasNext()) on(events.next());
    }
}
