import java.sql.*;
import java.util.Scanner;

public class Jdbc {
    static void attempt(boolean pause) throws SQLException {
        String statement = System.getenv("STATEMENT");
        try (Connection c = DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
                + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER") + "&prepareThreshold=0"); Statement s = c.createStatement()) {
            if (!statement.isEmpty()) {
                s.execute(statement);
                return;
            }
            c.setAutoCommit(false);
            s.execute("select ringfence.enter('" + System.getenv("PASS") + "')");
            if (pause) {
                System.out.println("inside");
                new Scanner(System.in).nextLine();
            }
            s.execute("insert into ledger values ('late')");
            c.commit();
        }
    }

    public static void main(String[] args) {
        for (boolean pause : new boolean[] {true, false}) {
            try {
                attempt(pause);
                System.out.println("STALE");
            } catch (SQLException e) {
                System.out.println(e.getSQLState() + " " + e.getClass().getSimpleName() + ": " + e.getMessage().lines().findFirst().get());
            }
        }
    }
}
