// What JDBC does at either host. The file of hosts that Java was given leads to the address.

import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.postgresql.PGConnection;
import org.postgresql.PGProperty;
import org.postgresql.PGStatement;

final class VerbsJdbc {
    private static final String SLEEPS =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

    static String client() throws SQLException {
        Driver driver = DriverManager.getDriver("jdbc:postgresql:");
        return "pgjdbc " + driver.getMajorVersion() + "." + driver.getMinorVersion();
    }

    /** Newer drivers have the setting; with it they refuse what they cannot bind. */
    static boolean knowsBinding() {
        return Arrays.stream(PGProperty.values()).anyMatch(each -> each.name().equals("CHANNEL_BINDING"));
    }

    static Connection connect(URI uri, Map<String, String> more) throws SQLException {
        String[] who = uri.getRawUserInfo().split(":", 2);
        Properties properties = new Properties();
        properties.setProperty("user", URLDecoder.decode(who[0], StandardCharsets.UTF_8));
        properties.setProperty("password", URLDecoder.decode(who[1], StandardCharsets.UTF_8));
        properties.setProperty("sslmode", "require");
        properties.putAll(more);
        if (knowsBinding()) {
            properties.setProperty("channelBinding", "require");
        }
        int port = uri.getPort() < 0 ? 5432 : uri.getPort();
        String place = uri.getHost() + ":" + port + uri.getRawPath();
        return DriverManager.getConnection("jdbc:postgresql://" + place, properties);
    }

    static String text(Connection connection, String statement) throws SQLException {
        try (Statement asked = connection.createStatement(); ResultSet rows = asked.executeQuery(statement)) {
            rows.next();
            return rows.getString(1);
        }
    }

    static long number(Connection connection, String statement) throws SQLException {
        return Long.parseLong(text(connection, statement));
    }

    static boolean truth(Connection connection, String statement) throws SQLException {
        return text(connection, statement).equals("t");
    }

    /** Asks with numbers for the parameters. */
    static int answer(PreparedStatement prepared, int... given) throws SQLException {
        for (int place = 0; place < given.length; place++) {
            prepared.setInt(place + 1, given[place]);
        }
        try (ResultSet rows = prepared.executeQuery()) {
            rows.next();
            return rows.getInt(1);
        }
    }

    static void checkIsOnServer(PreparedStatement prepared) throws SQLException {
        if (!prepared.unwrap(PGStatement.class).isUseServerPrepare()) {
            throw new SQLException("it was not prepared on the server");
        }
    }

    static String state(Connection connection, String statement) {
        try (Statement asked = connection.createStatement()) {
            asked.execute(statement);
            return null;
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static void cancel(Connection one, Connection other, Map<String, Object> seen) throws Exception {
        try (Statement sleep = one.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    while (number(other, SLEEPS) == 0) {
                        Thread.onSpinWait();
                    }
                    sleep.cancel();
                } catch (SQLException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            seen.put("cancelled", null);
            try {
                sleep.execute("select pg_sleep(60)");
            } catch (SQLException error) {
                seen.put("cancelled", error.getSQLState());
            }
            canceller.join();
        }
        seen.put("after_cancel", number(one, "select 1"));
    }

    static void copy(Connection one, Map<String, Object> seen, String... table) throws Exception {
        for (String statement : table) {
            state(one, statement);
        }
        StringBuilder rows = new StringBuilder();
        for (int n = 0; n < 10_000; n++) {
            rows.append(n).append("\tword ").append(n).append('\n');
        }
        var bytes = new ByteArrayInputStream(rows.toString().getBytes(StandardCharsets.UTF_8));
        var manager = one.unwrap(PGConnection.class).getCopyAPI();
        manager.copyIn("copy copied from stdin", bytes);
        Counted counted = new Counted();
        manager.copyOut("copy (select * from copied order by n) to stdout", counted);
        seen.put("copied", number(one, "select count(*) from copied"));
        seen.put("copied_bytes", counted.size);
    }

    static void stream(Connection one, Map<String, Object> seen) throws SQLException {
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
        seen.put("streamed", size);
    }

    static void recover(Connection one, Map<String, Object> seen) throws SQLException {
        one.setAutoCommit(false);
        seen.put("refused", Arrays.asList(state(one, "select 1 / 0"), state(one, "select 1")));
        one.rollback();
        seen.put("recovered", number(one, "select 7"));
        one.commit();
        one.setAutoCommit(true);
    }

    /** Words here are plain: none has anything to escape. */
    static String json(Object value) {
        if (value instanceof Map<?, ?> fields) {
            return fields.entrySet().stream()
                .map(field -> json(field.getKey()) + ": " + json(field.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof List<?> values) {
            return values.stream().map(VerbsJdbc::json).collect(Collectors.joining(", ", "[", "]"));
        }
        return value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
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
