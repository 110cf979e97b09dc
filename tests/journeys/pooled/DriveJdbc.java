// JDBC at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON.

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
    private static final int CROWD = 8;
    private static final int ROUNDS = 25;

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("client", VerbsJdbc.client());
        seen.put("is_bound", VerbsJdbc.knowsBinding());
        List<Connection> many = new ArrayList<>();
        for (int number = 0; number < CROWD; number++) {
            many.add(connect(uri));
        }
        try (Connection one = connect(uri); Connection other = connect(uri)) {
            crowd(many, seen);
            VerbsJdbc.cancel(one, other, seen);
            VerbsJdbc.copy(one, seen, "drop table if exists copied", "create table copied (n int, word text)");
            VerbsJdbc.stream(one, seen);
            VerbsJdbc.recover(one, seen);
            listen(one, seen);
            temporary(one, seen);
            lock(one, other, seen);
            VerbsJdbc.state(one, "notify news, 'heard'");
        }
        for (Connection connection : many) {
            connection.close();
        }
        System.out.println(VerbsJdbc.json(seen));
    }

    private static Connection connect(URI uri) throws SQLException {
        return VerbsJdbc.connect(uri, Map.of());
    }

    /** Each has another statement under the same name, `S_1` from the fifth time on, and settings of its own. */
    private static void crowd(List<Connection> many, Map<String, Object> seen) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CROWD);
        List<Future<Integer>> counts = new ArrayList<>();
        for (int each = 0; each < CROWD; each++) {
            int number = each;
            counts.add(threads.submit(() -> work(many.get(number), number)));
        }
        int right = 0;
        for (Future<Integer> count : counts) {
            right += count.get();
        }
        threads.shutdown();
        seen.put("right", right);
        seen.put("kept", count(many, "show work_mem", number -> (1000 + number) + "kB"));
        seen.put("words", count(many, "select current_setting('my.word', true)", number -> "word " + number));
    }

    /** How many have the answer that is right for their number. */
    private static int count(List<Connection> many, String statement, IntFunction<String> right) throws SQLException {
        int count = 0;
        for (int number = 0; number < CROWD; number++) {
            count += right.apply(number).equals(VerbsJdbc.text(many.get(number), statement)) ? 1 : 0;
        }
        return count;
    }

    private static int work(Connection connection, int number) throws SQLException {
        VerbsJdbc.state(connection, "set work_mem = '" + (1000 + number) + "kB'");
        VerbsJdbc.state(connection, "set my.word = 'word " + number + "'");
        int right = 0;
        try (PreparedStatement prepared = connection.prepareStatement("select ?::int * 1000 + " + number)) {
            for (int n = 0; n < ROUNDS; n++) {
                right += VerbsJdbc.answer(prepared, n) == n * 1000 + number ? 1 : 0;
            }
            VerbsJdbc.checkIsOnServer(prepared);
        }
        return right;
    }

    private static void listen(Connection one, Map<String, Object> seen) throws SQLException {
        seen.put("listened", Arrays.asList(null, false));
        try (Statement asked = one.createStatement()) {
            asked.execute("listen news");
        } catch (PSQLException error) {
            var told = error.getServerErrorMessage();
            boolean isNamed = (told.getMessage() + told.getHint()).contains("direct host");
            seen.put("listened", List.of(error.getSQLState(), isNamed));
        }
    }

    private static void temporary(Connection one, Map<String, Object> seen) throws SQLException {
        String outside = VerbsJdbc.state(one, "create temp table staying (n int)");
        one.setAutoCommit(false);
        VerbsJdbc.state(one, "create temp table passing (n int)");
        VerbsJdbc.state(one, "insert into passing values (1), (2), (3)");
        long inside = VerbsJdbc.number(one, "select count(*) from passing");
        one.commit();
        one.setAutoCommit(true);
        seen.put("temporary", Arrays.asList(outside, inside, VerbsJdbc.state(one, "select * from passing")));
    }

    private static void lock(Connection one, Connection other, Map<String, Object> seen) throws SQLException {
        String tries = "select pg_try_advisory_xact_lock(1)";
        String ofSession = VerbsJdbc.state(one, "select pg_advisory_lock(1)");
        one.setAutoCommit(false);
        VerbsJdbc.state(one, "select pg_advisory_xact_lock(1)");
        boolean meanwhile = VerbsJdbc.truth(other, tries);
        one.commit();
        one.setAutoCommit(true);
        seen.put("locked", Arrays.asList(ofSession, meanwhile, VerbsJdbc.truth(other, tries)));
    }
}
