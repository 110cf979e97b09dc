// JDBC does what programs do with a database. `URI [ADDRESS]`; prints one line of JSON.

import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.PGStatement;

public class DriveJdbc {
    private static final String SLEEPS =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        boolean binds = knowsBinding();
        try (Connection one = connect(uri, binds); Connection other = connect(uri, binds)) {
            String version = DriverManager.getDriver("jdbc:postgresql:").getMajorVersion() + "."
                + DriverManager.getDriver("jdbc:postgresql:").getMinorVersion();
            List<String> fields = new ArrayList<>();
            fields.add("\"client\": \"pgjdbc " + version + "\"");
            fields.add("\"is_bound\": " + binds);
            prepared(one, fields);
            cancel(one, other, fields);
            copy(one, fields);
            stream(one, fields);
            notify(one, other, fields);
            recover(one, fields);
            System.out.println("{" + String.join(", ", fields) + "}");
        }
    }

    /** Newer drivers have the setting; with it they refuse what they cannot bind. */
    private static boolean knowsBinding() {
        try {
            org.postgresql.PGProperty.valueOf("CHANNEL_BINDING");
            return true;
        } catch (IllegalArgumentException absent) {
            return false;
        }
    }

    private static Connection connect(URI uri, boolean binds) throws SQLException {
        String[] who = uri.getRawUserInfo().split(":", 2);
        Properties properties = new Properties();
        properties.setProperty("user", URLDecoder.decode(who[0], StandardCharsets.UTF_8));
        properties.setProperty("password", URLDecoder.decode(who[1], StandardCharsets.UTF_8));
        properties.setProperty("sslmode", "require");
        properties.setProperty("prepareThreshold", "3");
        if (binds) {
            properties.setProperty("channelBinding", "require");
        }
        int port = uri.getPort() < 0 ? 5432 : uri.getPort();
        return DriverManager.getConnection("jdbc:postgresql://" + uri.getHost() + ":" + port + uri.getRawPath(), properties);
    }

    private static long value(Connection connection, String statement) throws SQLException {
        try (Statement asked = connection.createStatement(); ResultSet rows = asked.executeQuery(statement)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private static String state(Connection connection, String statement) {
        try (Statement asked = connection.createStatement()) {
            asked.execute(statement);
            return "null";
        } catch (SQLException error) {
            return "\"" + error.getSQLState() + "\"";
        }
    }

    private static void prepared(Connection one, List<String> fields) throws SQLException {
        List<String> squares = new ArrayList<>();
        try (PreparedStatement square = one.prepareStatement("select ?::int * ?::int")) {
            for (int n = 1; n <= 10; n++) {
                square.setInt(1, n);
                square.setInt(2, n);
                try (ResultSet rows = square.executeQuery()) {
                    rows.next();
                    squares.add(rows.getString(1));
                }
            }
            if (!square.unwrap(PGStatement.class).isUseServerPrepare()) {
                throw new SQLException("it was not prepared on the server");
            }
            fields.add("\"prepared\": " + squares);
            String named = "select count(*) from pg_prepared_statements where statement like '%::int * %::int' and not from_sql";
            fields.add("\"statements\": " + value(one, named));
        }
    }

    private static void cancel(Connection one, Connection other, List<String> fields) throws Exception {
        try (Statement sleep = one.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    while (value(other, SLEEPS) == 0) {
                        Thread.onSpinWait();
                    }
                    sleep.cancel();
                } catch (SQLException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            String state = "null";
            try {
                sleep.execute("select pg_sleep(60)");
            } catch (SQLException error) {
                state = "\"" + error.getSQLState() + "\"";
            }
            canceller.join();
            fields.add("\"cancelled\": " + state);
            fields.add("\"after_cancel\": " + value(one, "select 1"));
        }
    }

    private static void copy(Connection one, List<String> fields) throws Exception {
        state(one, "create temp table copied (n int, word text)");
        StringBuilder rows = new StringBuilder();
        for (int n = 0; n < 10_000; n++) {
            rows.append(n).append("\tword ").append(n).append('\n');
        }
        var manager = one.unwrap(PGConnection.class).getCopyAPI();
        manager.copyIn("copy copied from stdin", new ByteArrayInputStream(rows.toString().getBytes(StandardCharsets.UTF_8)));
        Counted counted = new Counted();
        manager.copyOut("copy (select * from copied order by n) to stdout", counted);
        fields.add("\"copied\": " + value(one, "select count(*) from copied"));
        fields.add("\"copied_bytes\": " + counted.size);
    }

    private static void stream(Connection one, List<String> fields) throws SQLException {
        one.setAutoCommit(false); // else the driver holds the whole result
        long size = 0;
        try (Statement asked = one.createStatement()) {
            asked.setFetchSize(100);
            try (ResultSet rows = asked.executeQuery("select repeat('x', 10240) from generate_series(1, 10240)")) {
                while (rows.next()) {
                    size += rows.getString(1).length();
                }
            }
        }
        one.commit();
        one.setAutoCommit(true);
        fields.add("\"streamed\": " + size);
    }

    private static void notify(Connection one, Connection other, List<String> fields) throws SQLException {
        state(one, "listen news");
        state(other, "select pg_notify('news', word) from unnest(array['one', 'two']) word");
        List<String> words = new ArrayList<>();
        while (words.size() < 2) {
            PGNotification[] heard = one.unwrap(PGConnection.class).getNotifications(30_000);
            if (heard.length == 0) {
                break;
            }
            for (PGNotification note : heard) {
                words.add("\"" + note.getParameter() + "\"");
            }
        }
        fields.add("\"notified\": " + words);
    }

    private static void recover(Connection one, List<String> fields) throws SQLException {
        one.setAutoCommit(false);
        fields.add("\"refused\": " + List.of(state(one, "select 1 / 0"), state(one, "select 1")));
        one.rollback();
        fields.add("\"recovered\": " + value(one, "select 7"));
        one.setAutoCommit(true);
    }

    private static final class Counted extends OutputStream {
        private long size;

        @Override
        public void write(int one) {
            size++;
        }

        @Override
        public void write(byte[] some, int from, int count) {
            size += count;
        }
    }
}
