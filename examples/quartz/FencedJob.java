import java.math.BigInteger;
import java.security.MessageDigest;
import java.sql.*;
import org.quartz.*;
import org.quartz.utils.DBConnectionManager;

/** A job whose firings take a token each: docs/queues.md. */
public abstract class FencedJob implements Job {
    /** What is done with a connection in a transaction. */
    protected interface Work {
        void with(Connection c) throws SQLException;
    }

    private String pass; // of this firing: Quartz makes an object for each

    /** What the job does. It writes in {@link #transaction}. */
    protected abstract void run(JobExecutionContext context) throws Exception;

    @Override
    public final void execute(JobExecutionContext context) throws JobExecutionException {
        try {
            take(context);
            run(context);
        } catch (SQLException e) {
            throw new JobExecutionException(cause(e));
        } catch (Exception e) {
            throw new JobExecutionException(e);
        }
    }

    /** A take-over breaks the connection of a transaction that it ends. Trying again tells why: RF001. */
    private SQLException cause(SQLException e) {
        try {
            if (pass != null) {
                transaction(c -> {});
            }
            return e;
        } catch (SQLException again) {
            again.addSuppressed(e);
            return again;
        }
    }

    /** Runs work in a transaction. It is refused with RF001 once a later firing has taken the job. */
    protected void transaction(Work work) throws SQLException {
        try (Connection c = connect()) { // a pool rolls back what is closed without a commit
            c.setAutoCommit(false);
            try (PreparedStatement enter = c.prepareStatement("select ringfence.enter(?)")) {
                enter.setString(1, pass);
                enter.execute();
            }
            work.with(c);
            c.commit();
        }
    }

    private void take(JobExecutionContext context) throws Exception {
        byte[] job = MessageDigest.getInstance("MD5").digest(context.getJobDetail().getKey().toString().getBytes("UTF-8"));
        try (Connection c = connect(); PreparedStatement take = c.prepareStatement("select pass, ready, refused from ringfence.take(?, ?, ?)")) {
            c.setAutoCommit(true);
            take.setString(1, "quartz_" + String.format("%032x", new BigInteger(1, job)));
            take.setString(2, context.getFireInstanceId());
            take.setLong(3, context.getFireTime().getTime()); // a later firing deposes an earlier one
            for (boolean ready = false; !ready; Thread.sleep(10)) {
                ResultSet term = take.executeQuery();
                term.next();
                pass = term.getString(1);
                ready = term.getBoolean(2);
                if (term.getString(3) != null) {
                    throw new SQLException(term.getString(3));
                }
            }
        }
    }

    private static Connection connect() throws SQLException {
        return DBConnectionManager.getInstance().getConnection("shop"); // of quartz.properties
    }
}
