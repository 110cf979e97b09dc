// Runs typical actions with JDBC. Usage: `URI ADDRESS`; prints one line of JSON.

import java.net.URI;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

public class DriveJdbc {
    private static final Map<String, String> SETTINGS = Map.of("prepareThreshold", "3");

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("client", VerbsJdbc.clientName());
        results.put("is_bound", VerbsJdbc.supportsChannelBinding());
        try (
            Connection session = VerbsJdbc.connect(uri, SETTINGS);
            Connection other = VerbsJdbc.connect(uri, SETTINGS)
        ) {
            prepare(session, results);
            VerbsJdbc.cancel(session, other, results);
            VerbsJdbc.copy(session, results, "create temp table copied (n int, word text)");
            VerbsJdbc.stream(session, results);
            notify(session, other, results);
            VerbsJdbc.recover(session, results);
        }
        System.out.println(VerbsJdbc.json(results));
    }

    private static void prepare(Connection session, Map<String, Object> results) throws SQLException {
        String named =
            "select count(*) from pg_prepared_statements where statement like '%::int * %::int' and not from_sql";
        List<Integer> squares = new ArrayList<>();
        try (PreparedStatement square = session.prepareStatement("select ?::int * ?::int")) {
            for (int n = 1; n <= 10; n++) {
                squares.add(VerbsJdbc.fetchInt(square, n, n));
            }
            VerbsJdbc.checkIsOnServer(square);
            results.put("prepared", squares);
            results.put("statements", VerbsJdbc.fetchNumber(session, named));
        }
    }

    private static void notify(Connection session, Connection other, Map<String, Object> results) throws SQLException {
        VerbsJdbc.getSqlstate(session, "listen news");
        VerbsJdbc.getSqlstate(other, "select pg_notify('news', word) from unnest(array['one', 'two']) word");
        List<String> words = new ArrayList<>();
        while (words.size() < 2) {
            PGNotification[] notifications = session.unwrap(PGConnection.class).getNotifications(30_000);
            if (notifications.length == 0) {
                break;
            }
            for (PGNotification notification : notifications) {
                words.add(notification.getParameter());
            }
        }
        results.put("notified", words);
    }
}
