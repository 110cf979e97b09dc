// Runs JDBC at the pooled host with default settings. Usage: `URI ADDRESS`; prints a line of JSON.

import java.net.URI;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import org.postgresql.util.PSQLException;

public class DriveJdbc {
    private static final int CONNECTIONS = 8;
    private static final int ROUNDS = 25;

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("client", VerbsJdbc.clientName());
        results.put("is_bound", VerbsJdbc.supportsChannelBinding());
        List<Connection> connections = new ArrayList<>();
        for (int number = 0; number < CONNECTIONS; number++) {
            connections.add(connect(uri));
        }
        try (Connection session = connect(uri); Connection other = connect(uri)) {
            useAll(connections, results);
            VerbsJdbc.cancel(session, other, results);
            VerbsJdbc.copy(session, results, "drop table if exists copied", "create table copied (n int, word text)");
            VerbsJdbc.stream(session, results);
            VerbsJdbc.recover(session, results);
            listen(session, results);
            temporary(session, results);
            lock(session, other, results);
            VerbsJdbc.getSqlstate(session, "notify news, 'heard'");
        }
        for (Connection connection : connections) {
            connection.close();
        }
        System.out.println(VerbsJdbc.json(results));
    }

    private static Connection connect(URI uri) throws SQLException {
        return VerbsJdbc.connect(uri, Map.of());
    }

    /** Each connection has its own settings and its own statement `S_1`, prepared by the fifth execution. */
    private static void useAll(List<Connection> connections, Map<String, Object> results) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CONNECTIONS);
        List<Future<Integer>> counts = new ArrayList<>();
        for (int each = 0; each < CONNECTIONS; each++) {
            int number = each;
            counts.add(threads.submit(() -> work(connections.get(number), number)));
        }
        int correct = 0;
        for (Future<Integer> count : counts) {
            correct += count.get();
        }
        threads.shutdown();
        results.put("right", correct);
        results.put("kept", count(connections, "show work_mem", number -> (1000 + number) + "kB"));
        results.put("words", count(connections, "select current_setting('my.word', true)", number -> "word " + number));
    }

    /** Counts the connections whose result is correct for their number. */
    private static int count(List<Connection> connections, String statement, IntFunction<String> expected)
        throws SQLException {
        int count = 0;
        for (int number = 0; number < CONNECTIONS; number++) {
            count += expected.apply(number).equals(VerbsJdbc.fetchText(connections.get(number), statement)) ? 1 : 0;
        }
        return count;
    }

    private static int work(Connection connection, int number) throws SQLException {
        VerbsJdbc.getSqlstate(connection, "set work_mem = '" + (1000 + number) + "kB'");
        VerbsJdbc.getSqlstate(connection, "set my.word = 'word " + number + "'");
        int correct = 0;
        try (PreparedStatement prepared = connection.prepareStatement("select ?::int * 1000 + " + number)) {
            for (int n = 0; n < ROUNDS; n++) {
                correct += VerbsJdbc.fetchInt(prepared, n) == n * 1000 + number ? 1 : 0;
            }
            VerbsJdbc.checkIsOnServer(prepared);
        }
        return correct;
    }

    private static void listen(Connection session, Map<String, Object> results) throws SQLException {
        results.put("listened", Arrays.asList(null, false));
        try (Statement sql = session.createStatement()) {
            sql.execute("listen news");
        } catch (PSQLException error) {
            var message = error.getServerErrorMessage();
            boolean isNamed = (message.getMessage() + message.getHint()).contains("direct host");
            results.put("listened", List.of(error.getSQLState(), isNamed));
        }
    }

    private static void temporary(Connection session, Map<String, Object> results) throws SQLException {
        String outside = VerbsJdbc.getSqlstate(session, "create temp table staying (n int)");
        session.setAutoCommit(false);
        VerbsJdbc.getSqlstate(session, "create temp table passing (n int)");
        VerbsJdbc.getSqlstate(session, "insert into passing values (1), (2), (3)");
        long inside = VerbsJdbc.fetchNumber(session, "select count(*) from passing");
        session.commit();
        session.setAutoCommit(true);
        String afterwards = VerbsJdbc.getSqlstate(session, "select * from passing");
        results.put("temporary", Arrays.asList(outside, inside, afterwards));
    }

    private static void lock(Connection session, Connection other, Map<String, Object> results) throws SQLException {
        String tryLock = "select pg_try_advisory_xact_lock(1)";
        String sessionLock = VerbsJdbc.getSqlstate(session, "select pg_advisory_lock(1)");
        session.setAutoCommit(false);
        VerbsJdbc.getSqlstate(session, "select pg_advisory_xact_lock(1)");
        boolean during = VerbsJdbc.fetchBoolean(other, tryLock);
        session.commit();
        session.setAutoCommit(true);
        results.put("locked", Arrays.asList(sessionLock, during, VerbsJdbc.fetchBoolean(other, tryLock)));
    }
}
