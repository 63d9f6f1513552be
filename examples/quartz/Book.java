import java.sql.*;
import org.quartz.*;

/** Books lines, each in a transaction of its own, from where the firing before has stopped. */
@DisallowConcurrentExecution
public class Book extends FencedJob {
    private int booked;

    @Override
    protected void run(JobExecutionContext context) throws SQLException {
        JobDataMap job = context.getMergedJobDataMap();
        transaction(c -> booked = count(c, job.getString("merchant")));
        for (; booked < job.getIntValue("lines"); booked++) {
            transaction(c -> insert(c, job.getString("merchant")));
        }
    }

    private int count(Connection c, String merchant) throws SQLException {
        try (PreparedStatement s = c.prepareStatement("select count(*) from ledger where merchant = ?")) {
            s.setString(1, merchant);
            ResultSet r = s.executeQuery();
            r.next();
            return r.getInt(1);
        }
    }

    private void insert(Connection c, String merchant) throws SQLException {
        try (PreparedStatement s = c.prepareStatement("insert into ledger (merchant, line, worker) values (?, ?, ?)")) {
            s.setString(1, merchant);
            s.setInt(2, booked);
            s.setString(3, System.getenv("WORKER"));
            s.executeUpdate();
        }
    }
}
