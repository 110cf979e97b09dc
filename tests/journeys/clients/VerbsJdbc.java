// Actions of JDBC at the direct and the pooled host. A hosts file of the Java process resolves the host.

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
    private static final String COUNT_SLEEPING =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

    static String clientName() throws SQLException {
        Driver driver = DriverManager.getDriver("jdbc:postgresql:");
        return "pgjdbc " + driver.getMajorVersion() + "." + driver.getMinorVersion();
    }

    /** Newer drivers have this setting, and with it refuse connections without channel binding. */
    static boolean supportsChannelBinding() {
        return Arrays.stream(PGProperty.values()).anyMatch(each -> each.name().equals("CHANNEL_BINDING"));
    }

    static Connection connect(URI uri, Map<String, String> options) throws SQLException {
        String[] credentials = uri.getRawUserInfo().split(":", 2);
        Properties properties = new Properties();
        properties.setProperty("user", URLDecoder.decode(credentials[0], StandardCharsets.UTF_8));
        properties.setProperty("password", URLDecoder.decode(credentials[1], StandardCharsets.UTF_8));
        properties.setProperty("sslmode", "require");
        properties.putAll(options);
        if (supportsChannelBinding()) {
            properties.setProperty("channelBinding", "require");
        }
        int port = uri.getPort() < 0 ? 5432 : uri.getPort();
        String address = uri.getHost() + ":" + port + uri.getRawPath();
        return DriverManager.getConnection("jdbc:postgresql://" + address, properties);
    }

    static String fetchText(Connection connection, String statement) throws SQLException {
        try (Statement sql = connection.createStatement(); ResultSet rows = sql.executeQuery(statement)) {
            rows.next();
            return rows.getString(1);
        }
    }

    static long fetchNumber(Connection connection, String statement) throws SQLException {
        return Long.parseLong(fetchText(connection, statement));
    }

    static boolean fetchBoolean(Connection connection, String statement) throws SQLException {
        return fetchText(connection, statement).equals("t");
    }

    /** Executes the statement with integer parameters. */
    static int fetchInt(PreparedStatement prepared, int... parameters) throws SQLException {
        for (int index = 0; index < parameters.length; index++) {
            prepared.setInt(index + 1, parameters[index]);
        }
        try (ResultSet rows = prepared.executeQuery()) {
            rows.next();
            return rows.getInt(1);
        }
    }

    static void checkIsOnServer(PreparedStatement prepared) throws SQLException {
        if (!prepared.unwrap(PGStatement.class).isUseServerPrepare()) {
            throw new SQLException("the statement was not prepared on the server");
        }
    }

    static String getSqlstate(Connection connection, String statement) {
        try (Statement sql = connection.createStatement()) {
            sql.execute(statement);
            return null;
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static void cancel(Connection session, Connection other, Map<String, Object> results) throws Exception {
        try (Statement sleep = session.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    while (fetchNumber(other, COUNT_SLEEPING) == 0) {
                        Thread.onSpinWait();
                    }
                    sleep.cancel();
                } catch (SQLException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            results.put("cancelled", null);
            try {
                sleep.execute("select pg_sleep(60)");
            } catch (SQLException error) {
                results.put("cancelled", error.getSQLState());
            }
            canceller.join();
        }
        results.put("after_cancel", fetchNumber(session, "select 1"));
    }

    static void copy(Connection session, Map<String, Object> results, String... table) throws Exception {
        for (String statement : table) {
            getSqlstate(session, statement);
        }
        StringBuilder rows = new StringBuilder();
        for (int n = 0; n < 10_000; n++) {
            rows.append(n).append("\tword ").append(n).append('\n');
        }
        var bytes = new ByteArrayInputStream(rows.toString().getBytes(StandardCharsets.UTF_8));
        var manager = session.unwrap(PGConnection.class).getCopyAPI();
        manager.copyIn("copy copied from stdin", bytes);
        ByteCounter counter = new ByteCounter();
        manager.copyOut("copy (select * from copied order by n) to stdout", counter);
        results.put("copied", fetchNumber(session, "select count(*) from copied"));
        results.put("copied_bytes", counter.size);
    }

    static void stream(Connection session, Map<String, Object> results) throws SQLException {
        session.setAutoCommit(false); // otherwise the driver reads the whole result into memory
        long size = 0;
        try (Statement sql = session.createStatement()) {
            sql.setFetchSize(100);
            try (ResultSet rows = sql.executeQuery("select repeat('x', 10240) from generate_series(1, 10240)")) {
                while (rows.next()) {
                    size += rows.getString(1).length();
                }
            }
        }
        session.commit();
        session.setAutoCommit(true);
        results.put("streamed", size);
    }

    static void recover(Connection session, Map<String, Object> results) throws SQLException {
        session.setAutoCommit(false);
        results.put("refused", Arrays.asList(getSqlstate(session, "select 1 / 0"), getSqlstate(session, "select 1")));
        session.rollback();
        results.put("recovered", fetchNumber(session, "select 7"));
        session.commit();
        session.setAutoCommit(true);
    }

    /** Does not escape strings: those of these programs need no escaping. */
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

    private static final class ByteCounter extends OutputStream {
        private long size;

        @Override
        public void write(int value) {
            size++;
        }

        @Override
        public void write(byte[] bytes, int offset, int count) {
            size += count;
        }
    }
}
