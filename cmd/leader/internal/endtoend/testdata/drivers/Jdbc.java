import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** What a leader does with JDBC. drivers_test.go says how it talks to the test. */
public class Jdbc {
    static Connection lead() throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", "app");
        p.setProperty("password", "secret");
        p.setProperty("sslmode", "verify-full");
        p.setProperty("sslrootcert", System.getenv("CA"));
        p.setProperty("options", "-c fence." + System.getenv("RESOURCE") + "=5");
        return DriverManager.getConnection("jdbc:postgresql://localhost:" + System.getenv("PORT") + "/postgres", p);
    }

    public static void main(String[] args) throws Exception {
        Connection leader = lead();
        leader.setAutoCommit(false);
        try (PreparedStatement insert = leader.prepareStatement("insert into ledger (token, note) values (?, ?)")) {
            for (String note : new String[] {"é", "two"}) {
                insert.setLong(1, 5);
                insert.setString(2, note);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        leader.unwrap(PGConnection.class).getCopyAPI()
            .copyIn("copy ledger (token, note) from stdin", new StringReader("5\tthree\n"));
        leader.commit();
        int rows = 0;
        try (PreparedStatement read = leader.prepareStatement("select note from ledger where token = ?")) {
            read.setLong(1, 5);
            read.setFetchSize(2); // in batches, from a portal
            for (ResultSet r = read.executeQuery(); r.next();) {
                rows++;
            }
        }
        say("wrote " + rows);
        try (Statement s = leader.createStatement();
            ResultSet r = s.executeQuery("select ssl from pg_stat_ssl where pid = pg_backend_pid()")) {
            r.next();
            say("encrypted " + r.getBoolean(1));
        }
        leader.commit();
        leader.setAutoCommit(true);

        System.in.read(); // a newer leader is there now
        try (Statement s = leader.createStatement()) {
            s.execute("insert into ledger (token) values (5)");
        } catch (PSQLException e) {
            ServerErrorMessage m = e.getServerErrorMessage();
            say("deposed " + e.getSQLState() + " " + m.getSchema() + " " + m.getTable() + " " + m.getColumn() + " " + m.getConstraint());
        }
        try {
            lead();
        } catch (SQLException e) {
            say("refused " + e.getSQLState());
        }
    }

    static void say(String what) {
        System.out.println(what);
        System.out.flush();
    }
}
