// JDBC does what programs do with a database. `URI ADDRESS`; prints one line of JSON.

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
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("client", VerbsJdbc.client());
        seen.put("is_bound", VerbsJdbc.knowsBinding());
        try (Connection one = VerbsJdbc.connect(uri, SETTINGS); Connection other = VerbsJdbc.connect(uri, SETTINGS)) {
            prepare(one, seen);
            VerbsJdbc.cancel(one, other, seen);
            VerbsJdbc.copy(one, seen, "create temp table copied (n int, word text)");
            VerbsJdbc.stream(one, seen);
            notify(one, other, seen);
            VerbsJdbc.recover(one, seen);
        }
        System.out.println(VerbsJdbc.json(seen));
    }

    private static void prepare(Connection one, Map<String, Object> seen) throws SQLException {
        String named =
            "select count(*) from pg_prepared_statements where statement like '%::int * %::int' and not from_sql";
        List<Integer> squares = new ArrayList<>();
        try (PreparedStatement square = one.prepareStatement("select ?::int * ?::int")) {
            for (int n = 1; n <= 10; n++) {
                squares.add(VerbsJdbc.answer(square, n, n));
            }
            VerbsJdbc.checkIsOnServer(square);
            seen.put("prepared", squares);
            seen.put("statements", VerbsJdbc.number(one, named));
        }
    }

    private static void notify(Connection one, Connection other, Map<String, Object> seen) throws SQLException {
        VerbsJdbc.state(one, "listen news");
        VerbsJdbc.state(other, "select pg_notify('news', word) from unnest(array['one', 'two']) word");
        List<String> words = new ArrayList<>();
        while (words.size() < 2) {
            PGNotification[] heard = one.unwrap(PGConnection.class).getNotifications(30_000);
            if (heard.length == 0) {
                break;
            }
            for (PGNotification note : heard) {
                words.add(note.getParameter());
            }
        }
        seen.put("notified", words);
    }
}
