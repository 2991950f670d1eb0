import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sproutsocial.nsq.*;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLEncoder;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The jobs of nsq-j, done against nsqd or what stands in its place.
 *
 * Prints a line for each job, in the form of the Test Anything Protocol. The jobs run at
 * the same time, each with a topic of its own. A job waits for what must happen.
 */
public class Jobs {
    static final long PATIENCE = 30_000; // milliseconds for each wait
    static String tcp, http, secret;

    interface Job { void run(Bench b) throws Exception; }

    interface Condition { boolean holds() throws Exception; }

    /** A message as it came. */
    static class Got {
        final long at = System.nanoTime();
        final Message message;
        Got(Message m) { message = m; }
        String text() { return new String(message.getData(), java.nio.charset.StandardCharsets.ISO_8859_1); }
    }

    /** What one job works with: clients of its topic. */
    static class Bench {
        final String topic;
        Bench(String topic) { this.topic = topic; }

        Publisher publisher(Config config) {
            Publisher p = new Publisher(client(), tcp, null);
            p.setConfig(config);
            return p;
        }

        void publish(String... bodies) {
            Publisher p = publisher(new Config());
            for (String body : bodies) p.publish(topic, bytes(body));
        }

        /** A subscriber of the node itself, with few messages in flight so that each answer is flushed. */
        Subscriber subscriber(Config config) {
            Subscriber s = new DirectSubscriber(1, tcp);
            s.setConfig(config);
            s.setDefaultMaxInFlight(2); // for a backoff handler too
            return s;
        }

        BlockingQueue<Got> finishing(Subscriber s, String channel) {
            BlockingQueue<Got> got = new LinkedBlockingQueue<>();
            s.subscribe(topic, channel, 2, m -> { got.add(new Got(m)); m.finish(); });
            return got;
        }

        BlockingQueue<Got> finishing() { return finishing(subscriber(new Config()), "c"); }

        JsonObject channel(String name) throws Exception {
            URL url = new URL("http://" + http + "/stats?format=json&topic=" + URLEncoder.encode(topic, "UTF-8"));
            try (InputStreamReader in = new InputStreamReader(url.openStream())) {
                for (JsonElement t : new JsonParser().parse(in).getAsJsonObject().getAsJsonArray("topics"))
                    for (JsonElement c : t.getAsJsonObject().getAsJsonArray("channels"))
                        if (c.getAsJsonObject().get("channel_name").getAsString().equals(name)) return c.getAsJsonObject();
            }
            return null;
        }

        void empty() throws Exception {
            until("the channel to be empty", () -> {
                JsonObject c = channel("c");
                return c != null && c.get("depth").getAsInt() + c.get("in_flight_count").getAsInt() + c.get("deferred_count").getAsInt() == 0;
            });
        }
    }

    static Client client() {
        Client c = new Client();
        if (!secret.isEmpty()) c.setAuthSecret(secret);
        return c;
    }

    static void until(String what, Condition c) throws Exception {
        for (long end = System.nanoTime() + PATIENCE * 1_000_000; !c.holds(); Thread.sleep(20))
            if (System.nanoTime() > end) throw new AssertionError("waited for " + what);
    }

    static byte[] bytes(String s) { return s.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1); }

    static Got next(BlockingQueue<Got> q) throws Exception {
        Got g = q.poll(PATIENCE, TimeUnit.MILLISECONDS);
        if (g == null) throw new AssertionError("waited for a message");
        return g;
    }

    static void same(Object got, Object want) {
        if (!got.equals(want)) throw new AssertionError(brief(got) + ", not " + brief(want));
    }

    static String brief(Object o) { String s = o.toString(); return s.length() < 300 ? s : s.substring(0, 300); }

    static void atLeast(long from, long to, long millis) {
        if (to - from < millis * 1_000_000) throw new AssertionError((to - from) / 1_000_000 + " ms, not " + millis);
    }

    static List<String> numbered(int n) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < n; i++) all.add(String.format("message %04d", i));
        return all;
    }

    static List<byte[]> encoded(List<String> all) {
        List<byte[]> list = new ArrayList<>();
        for (String s : all) list.add(bytes(s));
        return list;
    }

    /** Takes exactly these messages in any order, each at its first attempt; the channel is empty then. */
    static void exactly(Bench b, BlockingQueue<Got> q, List<String> want) throws Exception {
        List<String> got = new ArrayList<>();
        for (int i = 0; i < want.size(); i++) {
            Got g = next(q);
            same(g.message.getAttempts(), 1);
            same(g.message.getTopic(), b.topic);
            got.add(g.text());
        }
        b.empty();
        for (Got more : q) got.add(more.text());
        Collections.sort(got);
        List<String> sorted = new ArrayList<>(want);
        Collections.sort(sorted);
        same(got, sorted);
    }

    static void roundTrip(Bench b, String compression, Config config, Config other) throws Exception {
        BlockingQueue<Got> q = b.finishing(b.subscriber(config), "c");
        until(compression, () -> b.channel("c") != null && b.channel("c").getAsJsonArray("clients").size() == 1);
        same(b.channel("c").getAsJsonArray("clients").get(0).getAsJsonObject().get(compression).getAsBoolean(), true);
        List<String> all = numbered(200);
        all.add(letters(300_000));
        b.publisher(other).publish(b.topic, encoded(all));
        exactly(b, q, all);
    }

    static String letters(int n) {
        Random r = new Random(n);
        StringBuilder s = new StringBuilder(n);
        for (int i = 0; i < n; i++) s.append((char) r.nextInt(256));
        return s.toString();
    }

    static final Map<String, Job> JOBS = new LinkedHashMap<>();

    static {
        JOBS.put("publish", b -> {
            BlockingQueue<Got> q = b.finishing();
            b.publish("one", "\0\r\n\377", "three");
            exactly(b, q, Arrays.asList("one", "\0\r\n\377", "three"));
        });
        JOBS.put("publish_batch", b -> {
            BlockingQueue<Got> q = b.finishing();
            b.publisher(new Config()).publish(b.topic, encoded(numbered(500)));
            exactly(b, q, numbered(500));
        });
        JOBS.put("publish_buffered_by_time", b -> {
            BlockingQueue<Got> q = b.finishing();
            Publisher p = b.publisher(new Config());
            p.setBatchConfig(b.topic, 1 << 20, 1000);
            long from = System.nanoTime();
            for (String s : numbered(50)) p.publishBuffered(b.topic, bytes(s));
            Got first = next(q);
            atLeast(from, first.at, 900); // the client rounds down by less than 50 ms
            q.add(first);
            exactly(b, q, numbered(50));
        });
        JOBS.put("publish_buffered_by_size", b -> {
            BlockingQueue<Got> q = b.finishing();
            Publisher p = b.publisher(new Config());
            p.setBatchConfig(b.topic, 1200, 60_000); // 100 messages of 12 bytes
            for (String s : numbered(200)) p.publishBuffered(b.topic, bytes(s));
            exactly(b, q, numbered(200));
        });
        JOBS.put("publish_deferred", b -> {
            BlockingQueue<Got> q = b.finishing();
            long from = System.nanoTime();
            b.publisher(new Config()).publishDeferred(b.topic, bytes("later"), 1500, TimeUnit.MILLISECONDS);
            Got g = next(q);
            atLeast(from, g.at, 1500);
            q.add(g);
            exactly(b, q, Arrays.asList("later"));
        });
        JOBS.put("requeue", b -> requeue(b, 0));
        JOBS.put("requeue_with_delay", b -> requeue(b, 1000));
        JOBS.put("finish", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>();
            b.subscriber(new Config()).subscribe(b.topic, "c", 2, m -> q.add(new Got(m)));
            b.publish("x");
            Got g = next(q);
            until("a message in flight", () -> b.channel("c").get("in_flight_count").getAsInt() == 1);
            g.message.finish();
            b.empty();
            same(q.size(), 0);
        });
        JOBS.put("timeout", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>();
            Config config = new Config();
            config.setMsgTimeout(1000);
            b.subscriber(config).subscribe(b.topic, "c", 2, m -> {
                q.add(new Got(m));
                if (m.getAttempts() > 1) m.finish();
            });
            long from = System.nanoTime();
            b.publish("x");
            same(next(q).message.getAttempts(), 1);
            Got again = next(q);
            same(again.message.getAttempts(), 2);
            atLeast(from, again.at, 1000);
            b.empty();
        });
        JOBS.put("touch", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>();
            Config config = new Config();
            config.setMsgTimeout(3000);
            b.subscriber(config).subscribe(b.topic, "c", 2, m -> q.add(new Got(m)));
            b.publish("x");
            Got g = next(q);
            for (int i = 0; i < 10; i++) {
                Thread.sleep(500);
                g.message.touch();
            }
            same(q.size(), 0); // 5 s later
            g.message.finish();
            b.empty();
            same(q.size(), 0);
        });
        JOBS.put("several_consumers", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>();
            CountDownLatch both = new CountDownLatch(2);
            for (int i = 0; i < 2; i++) {
                AtomicInteger mine = new AtomicInteger();
                b.subscriber(new Config()).subscribe(b.topic, "c", 1, m -> {
                    if (mine.getAndIncrement() == 0) both.countDown();
                    try {
                        if (!both.await(PATIENCE, TimeUnit.MILLISECONDS)) return; // not finished: the job fails
                    } catch (InterruptedException e) {
                        return;
                    }
                    q.add(new Got(m));
                    m.finish();
                });
            }
            b.publish(numbered(20).toArray(new String[0]));
            exactly(b, q, numbered(20));
        });
        JOBS.put("two_channels", b -> {
            BlockingQueue<Got> c = b.finishing(), d = b.finishing(b.subscriber(new Config()), "d");
            b.publisher(new Config()).publish(b.topic, encoded(numbered(20)));
            exactly(b, c, numbered(20));
            exactly(b, d, numbered(20));
        });
        JOBS.put("lookup", b -> {
            b.publisher(new Config()).publish(b.topic, encoded(numbered(20)));
            exactly(b, b.finishing(new Subscriber(client(), 1, 5, http), "c"), numbered(20));
        });
        JOBS.put("deflate", b -> {
            Config one = new Config(), other = new Config();
            one.setDeflate(true);
            other.setDeflate(true);
            roundTrip(b, "deflate", one, other);
        });
        JOBS.put("snappy", b -> {
            Config one = new Config(), other = new Config();
            one.setSnappy(true);
            other.setSnappy(true);
            roundTrip(b, "snappy", one, other);
        });
        JOBS.put("max_attempts", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>(), failed = new LinkedBlockingQueue<>();
            Subscriber s = b.subscriber(new Config());
            s.setMaxAttempts(3);
            s.setFailedMessageHandler((topic, channel, m) -> failed.add(new Got(m)));
            s.subscribe(b.topic, "c", 2, m -> { q.add(new Got(m)); m.requeue(); });
            b.publish("x");
            Got g = next(failed);
            same(g.text() + g.message.getAttempts(), "x3");
            same(next(q).message.getAttempts(), 1);
            same(next(q).message.getAttempts(), 2);
            b.empty();
            same(q.size() + failed.size(), 0);
        });
        JOBS.put("backoff", b -> {
            BlockingQueue<Got> q = new LinkedBlockingQueue<>();
            b.subscriber(new Config()).subscribe(b.topic, "c", new BackoffHandler(m -> {
                q.add(new Got(m));
                if (m.getAttempts() == 1) throw new IllegalStateException("fails once");
            }));
            b.publish("x");
            same(next(q).message.getAttempts(), 1);
            same(next(q).message.getAttempts(), 2);
            b.empty();
            same(q.size(), 0);
        });
        JOBS.put("ephemeral_channel", b -> {
            Subscriber s = b.subscriber(new Config());
            BlockingQueue<Got> q = b.finishing(s, "c#ephemeral");
            b.publish("x");
            same(next(q).text(), "x");
            until("the channel", () -> b.channel("c#ephemeral") != null);
            s.stop();
            until("the channel to go", () -> b.channel("c#ephemeral") == null);
        });
        JOBS.put("large_messages", b -> {
            BlockingQueue<Got> q = b.finishing();
            String largest = letters(1 << 20);
            b.publish(largest, "small", largest);
            exactly(b, q, Arrays.asList(largest, "small", largest));
        });
    }

    static void requeue(Bench b, int delay) throws Exception {
        BlockingQueue<Got> q = new LinkedBlockingQueue<>();
        b.subscriber(new Config()).subscribe(b.topic, "c", 2, m -> {
            q.add(new Got(m)); // before the answer: another thread may handle the next attempt at once
            if (m.getAttempts() < 3) m.requeue(delay);
            else m.finish();
        });
        b.publish("x");
        Got before = next(q);
        same(before.text() + before.message.getAttempts(), "x1");
        for (int attempt = 2; attempt <= 3; attempt++) {
            Got g = next(q);
            same(g.text() + g.message.getAttempts(), "x" + attempt);
            atLeast(before.at, g.at, delay);
            same(g.message.getId(), before.message.getId());
            before = g;
        }
        b.empty();
        same(q.size(), 0);
    }

    public static void main(String[] args) throws Exception {
        tcp = args[0];
        http = args[1];
        secret = args[2]; // of AUTH; "": none
        if (!secret.isEmpty()) Client.getDefaultClient().setAuthSecret(secret);
        Client.getDefaultClient().setExecutor(Executors.newCachedThreadPool()); // no job waits for another's handler
        ExecutorService pool = Executors.newFixedThreadPool(JOBS.size());
        Map<String, Future<?>> running = new LinkedHashMap<>();
        JOBS.forEach((name, job) -> running.put(name, pool.submit(() -> { job.run(new Bench("nsqj_" + name)); return null; })));
        int number = 0, failed = 0;
        for (Map.Entry<String, Future<?>> e : running.entrySet()) {
            String wrong = "";
            try {
                e.getValue().get();
            } catch (ExecutionException x) {
                StringWriter text = new StringWriter();
                x.getCause().printStackTrace(new PrintWriter(text, true));
                wrong = text.toString();
                failed++;
            }
            System.out.println((wrong.isEmpty() ? "ok " : "not ok ") + ++number + " - " + e.getKey());
            for (String line : wrong.split("\n")) if (!line.isEmpty()) System.out.println("  " + line);
        }
        System.exit(failed > 0 ? 1 : 0);
    }
}
