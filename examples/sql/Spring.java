import java.sql.SQLException;
import java.util.Scanner;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

public class Spring {
    static String pass;

    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in);
        String holder = args[0];
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER") + "&prepareThreshold=0");
        JdbcTemplate db = new JdbcTemplate(source);
        while (pass == null) { // fence
            pass = db.queryForObject("select case when ready then pass end from ringfence.take('orders', '" + holder + "', " + args[1] + ")", String.class); // fence
            Thread.sleep(10); // fence
        }
        DefaultTransactionDefinition level = new DefaultTransactionDefinition();
        level.setIsolationLevelName("ISOLATION_" + System.getenv("LEVEL").toUpperCase().replace(' ', '_'));
        TransactionTemplate transaction = new TransactionTemplate(new DataSourceTransactionManager(source), level);
        for (String step : new String[] {"wrote", "inside", ""}) {
            try {
                transaction.execute(status -> { // or a method with @Transactional
                    db.execute("select ringfence.enter('" + pass + "')"); // fence
                    if (step.equals("inside")) {
                        System.out.println("inside");
                        in.nextLine();
                    }
                    db.execute("insert into ledger values ('" + holder + "')");
                    return null;
                });
                System.out.println(step.equals("wrote") ? "wrote" : "STALE");
            } catch (DataAccessException | TransactionException e) {
                Throwable cause = e.getCause();
                boolean refused = cause instanceof SQLException && "RF001".equals(((SQLException) cause).getSQLState());
                System.out.println(refused ? "refused" : "ended");
            }
        }
    }
}
