import java.sql.*;

/** A program that nobody can change: it has a URL of its own, runs as a daemon, and writes as long as it can. */
public class Vendor {
    public static void main(String[] args) throws Exception {
        try (Connection c = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:PORT/postgres?user=app");
             Statement s = c.createStatement()) {
            while (true) {
                s.execute("insert into ledger (token, note) values (current_setting('fence.orders')::bigint, 'vendor')");
                Thread.sleep(50);
            }
        }
    }
}
