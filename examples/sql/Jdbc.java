import java.sql.*;
import java.util.Scanner;

public class Jdbc {
    static final Scanner in = new Scanner(System.in);
    static String holder, pass;

    static Connection connect() throws SQLException {
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER") + "&prepareThreshold=0");
    }

    static void transfer(Connection c, boolean pause) throws SQLException {
        c.setAutoCommit(false);
        try (Statement s = c.createStatement()) {
            s.execute("set transaction isolation level " + System.getenv("LEVEL"));
            s.execute("select ringfence.enter('" + pass + "')"); // fence
            if (pause) {
                System.out.println("inside");
                in.nextLine();
            }
            s.execute("insert into ledger values ('" + holder + "')");
            c.commit();
        }
    }

    public static void main(String[] args) throws Exception {
        holder = args[0];
        Connection c = connect();
        try (Statement s = c.createStatement()) {
            while (pass == null) { // fence
                ResultSet r = s.executeQuery("select case when ready then pass end from ringfence.take('orders', '" + holder + "', " + args[1] + ")"); // fence
                r.next(); // fence
                pass = r.getString(1); // fence
                Thread.sleep(10);
            }
        }
        transfer(c, false);
        System.out.println("wrote");
        for (boolean pause : new boolean[] {true, false}) {
            try {
                transfer(c, pause);
                System.out.println("STALE");
            } catch (SQLException e) {
                System.out.println("RF001".equals(e.getSQLState()) ? "refused" : "ended");
                c.close();
                c = connect();
            }
        }
    }
}
