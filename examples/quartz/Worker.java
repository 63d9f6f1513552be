import java.util.Properties;
import org.quartz.*;
import org.quartz.impl.StdSchedulerFactory;

/** A node of a Quartz cluster: java Worker. With a number it submits a job that books so many lines, and ends. */
public class Worker {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.load(Worker.class.getResourceAsStream("quartz.properties"));
        p.setProperty("org.quartz.scheduler.instanceId", System.getenv("WORKER"));
        p.setProperty("org.quartz.dataSource.shop.URL", System.getenv("JDBC_URL"));
        Scheduler scheduler = new StdSchedulerFactory(p).getScheduler();
        if (args.length == 0) {
            scheduler.start();
            return;
        }
        JobDetail job = JobBuilder.newJob(Book.class).withIdentity("book m1").usingJobData("merchant", "m1").usingJobData("lines", args[0])
            .requestRecovery() // fired again when its node is thought dead
            .build();
        scheduler.scheduleJob(job, TriggerBuilder.newTrigger().startNow().build());
        scheduler.shutdown();
    }
}
