"""Every job that pynsq does, done against nsqd or what stands in its place.

Prints a line for each job, in the form of the Test Anything Protocol. The jobs run at
the same time, each with a topic of its own. A job waits for what must happen, for as
long as it takes up to PATIENCE; none takes a moment without an event for an answer.
"""

import argparse
import asyncio
import json
import logging
import os
import ssl
import sys
import time
import traceback
import urllib.request

import nsq

PATIENCE = 60  # seconds for a job
LONG = 600  # seconds: a message timeout that no job waits for
JOBS = {"open": [], "auth": []}


def job(group):
    def add(function):
        JOBS[group].append(function)
        return function
    return add


def open_url(at, path):
    """Asks the node over HTTP."""
    request = urllib.request.Request("http://" + at.http + path)
    return urllib.request.urlopen(request, timeout=PATIENCE)


class Writer(nsq.Writer):
    """A writer that keeps the errors and counts the heartbeats of its connections."""

    def __init__(self, *args, **options):
        self.errors, self.beats = [], 0
        super().__init__(*args, **options)

    def _on_connection_error(self, conn, error, **rest):
        self.errors.append(error)
        super()._on_connection_error(conn, error, **rest)

    def heartbeat(self, conn):
        self.beats += 1


class Reader(nsq.Reader):
    """A reader that keeps errors, heartbeats, and the messages that it gave up."""

    def __init__(self, *args, **options):
        self.errors, self.beats, self.given_up = [], 0, []
        super().__init__(*args, **options)

    def _on_connection_error(self, conn, error, **rest):
        self.errors.append(error)
        super()._on_connection_error(conn, error, **rest)

    def heartbeat(self, conn):
        self.beats += 1

    def giving_up(self, message):
        self.given_up.append(message)


class Bench:
    """What one job works with: clients of its topic, closed when the job is over."""

    def __init__(self, topic, at):
        self.topic, self.at = topic, at
        self.clients, self.waits_for = [], "nothing"

    async def until(self, what, holds):
        self.waits_for = what
        while not holds():
            await asyncio.sleep(0.005)

    def new_writer(self, **options):
        options.setdefault("reconnect_interval", 3600)
        writer = Writer([self.at.tcp], **options)
        self.clients.append(writer)
        return writer

    async def writer(self, **options):
        writer = self.new_writer(**options)
        await self.until("the writer's connection", lambda: writer.conns)
        return writer

    async def send(self, writer, command, *args, topic=None):
        """Publishes, and returns the answer, which may be an nsq.Error."""
        answer = asyncio.get_running_loop().create_future()
        getattr(writer, command)(topic or self.topic, *args, callback=lambda _, said: answer.set_result(said))
        self.waits_for = "the answer to " + command
        return await answer

    async def publish(self, *bodies):
        writer = await self.writer()
        same(await self.send(writer, "mpub", list(bodies)), b"OK")

    def reader(self, handler, channel="c", addresses=None, **options):
        if "lookupd_http_addresses" not in options:
            options["nsqd_tcp_addresses"] = addresses or [self.at.tcp]
        reader = Reader(self.topic, channel, message_handler=handler, **options)
        self.clients.append(reader)
        return reader

    async def connected(self, reader, connections=1):
        await self.until("the reader's connections", lambda: len(reader.conns) == connections)

    async def ask(self, path):
        def get():
            with open_url(self.at, path) as answer:
                return json.load(answer)
        return await asyncio.to_thread(get)

    async def channels(self):
        """The topic's channels by name, None if there is no such topic."""
        topics = (await self.ask("/stats?format=json&topic=" + self.topic.replace("#", "%23")))["topics"]
        return {c["channel_name"]: c for c in topics[0]["channels"]} if topics else None

    async def until_channels(self, names):
        """Waits until the topic has these channels: SUB has been answered then."""
        self.waits_for = "channels %s" % names
        while set((await self.channels()) or ()) != names:
            await asyncio.sleep(0.02)

    async def empty(self, channel="c"):
        """Waits until the channel holds no message."""
        self.waits_for = "channel %s to be empty" % channel
        while True:
            c = ((await self.channels()) or {}).get(channel)
            if c and c["depth"] + c["in_flight_count"] + c["deferred_count"] == 0:
                return
            await asyncio.sleep(0.02)

    def close(self):
        for client in self.clients:
            if isinstance(client, Reader):
                if client.redist_periodic:
                    client.close()
            else:
                for conn in list(client.conns.values()):
                    conn.close()


def same(got, want):
    if got != want:
        raise AssertionError("%.300r, not %.300r" % (got, want))


def refused(answer, code):
    if not isinstance(answer, nsq.Error) or not str(answer.args[0], "ascii").startswith(code):
        raise AssertionError("%r, not %s" % (answer, code))


def keep(messages):
    """A handler that keeps the messages and answers for none."""
    def handler(message):
        message.enable_async()
        messages.append(message)
    return handler


def finish(messages):
    """A handler that keeps the messages and finishes all."""
    def handler(message):
        messages.append(message)
        return True
    return handler


def bodies(messages):
    return sorted(m.body for m in messages)


def numbered(count):
    return [b"%06d" % n for n in range(count)]


# Writer.


@job("open")
async def pub(b):
    began = time.time()
    writer, got = await b.writer(), []
    same(await b.send(writer, "pub", b"\x00\n\xff hello"), b"OK")
    b.reader(finish(got))
    await b.until("the message", lambda: got)
    same((got[0].body, got[0].attempts, len(got[0].id)), (b"\x00\n\xff hello", 1, 16))
    assert began - 1 < got[0].timestamp / 1e9 < time.time() + 1, got[0].timestamp
    await b.empty()
    same(len(got), 1)


@job("open")
async def pub_pipelined(b):
    writer, got = await b.writer(), []
    answers = await asyncio.gather(*(b.send(writer, "pub", body) for body in numbered(200)))
    same(answers, [b"OK"] * 200)
    b.reader(finish(got), max_in_flight=50)
    await b.until("200 messages", lambda: len(got) >= 200)
    same(bodies(got), numbered(200))


@job("open")
async def pub_big(b):
    writer, got = await b.writer(), []
    body = os.urandom(1 << 20)
    same(await b.send(writer, "pub", body), b"OK")
    b.reader(finish(got))
    await b.until("the message", lambda: got)
    assert got[0].body == body, "another body"


@job("open")
async def mpub(b):
    writer, got = await b.writer(), []
    same(await b.send(writer, "mpub", [b"a", b"\x00", b"c" * 3000]), b"OK")
    b.reader(finish(got))
    await b.until("3 messages", lambda: len(got) >= 3)
    same(bodies(got), [b"\x00", b"a", b"c" * 3000])


@job("open")
async def mpub_of_many(b):
    writer, got = await b.writer(), []
    same(await b.send(writer, "mpub", numbered(5000)), b"OK")
    b.reader(finish(got), max_in_flight=500)
    await b.until("5000 messages", lambda: len(got) >= 5000)
    await b.empty()
    same(bodies(got), numbered(5000))


@job("open")
async def mpub_with_an_empty_message(b):
    writer, got = await b.writer(reconnect_interval=0.05), []
    first = list(writer.conns.values())
    refused(await b.send(writer, "mpub", [b"a", b""]), "E_BAD_MESSAGE")
    await b.until("another connection", lambda: writer.conns and list(writer.conns.values()) != first)
    same(await b.send(writer, "pub", b"after"), b"OK")
    b.reader(finish(got))
    await b.until("the message", lambda: got)
    await b.empty()
    same(bodies(got), [b"after"])


@job("open")
async def dpub(b):
    writer, got, came = await b.writer(), [], []
    b.reader(lambda m: came.append(time.monotonic()) or finish(got)(m))
    began = time.monotonic()
    same(await b.send(writer, "dpub", 400, b"later"), b"OK")
    await b.until("the message", lambda: got)
    same((got[0].body, got[0].attempts), (b"later", 1))
    assert came[0] - began >= 0.395, came[0] - began


@job("open")
async def dpub_too_late(b):
    writer = await b.writer(reconnect_interval=0.05)
    first = list(writer.conns.values())
    refused(await b.send(writer, "dpub", 3600001, b"never"), "E_INVALID")
    await b.until("another connection", lambda: writer.conns and list(writer.conns.values()) != first)
    same(await b.send(writer, "dpub", 3600000, b"in an hour"), b"OK")


# Reader.


@job("open")
async def two_channels_get_everything(b):
    left, right = [], []
    readers = [b.reader(finish(left), "left"), b.reader(finish(right), "right")]
    for reader in readers:
        await b.connected(reader)
    await b.until_channels({"left", "right"})
    await b.publish(*numbered(20))
    await b.until("20 messages each", lambda: len(left) >= 20 and len(right) >= 20)
    same((bodies(left), bodies(right)), (numbered(20), numbered(20)))


@job("open")
async def readers_share_a_channel(b):
    held = []
    for _ in range(3):
        await b.connected(b.reader(keep(held), max_in_flight=2))
    await b.publish(*numbered(6))
    await b.until("2 messages for each of 3", lambda: len(held) >= 6)
    same(bodies(held), numbered(6))
    for message in held:
        message.finish()
    await b.empty()


@job("open")
async def max_in_flight(b):
    held, most, done = [], [0], []

    def handler(message):
        keep(held)(message)
        most[0] = max(most[0], len(held))
    await b.publish(*numbered(20))
    b.reader(handler, max_in_flight=5)
    while len(done) < 20:
        await b.until("5 messages in flight", lambda: len(held) >= 5)
        batch, held[:] = list(held), []
        for message in batch:
            message.finish()
        done += batch
    await b.empty()
    same((most[0], bodies(done)), (5, numbered(20)))


@job("open")
async def max_in_flight_over_many_connections(b):
    addresses = b.at.all + ["localhost:" + b.at.tcp.split(":")[1]]
    limit, held, done = 2 * len(addresses), [], []
    reader = b.reader(keep(held), addresses=addresses, max_in_flight=limit)
    await b.connected(reader, len(addresses))
    await b.publish(*numbered(4 * limit))
    while len(done) < 4 * limit:
        await b.until("%d messages in flight" % limit, lambda: len(held) >= limit)
        same(len(held), limit)
        same([c.in_flight for c in reader.conns.values()], [2] * len(addresses))
        batch, held[:] = list(held), []
        for message in batch:
            message.finish()
        done += batch
    await b.empty()
    same(bodies(done), numbered(4 * limit))


@job("open")
async def a_paused_reader_gets_nothing(b):
    paused, other = [], []
    first = b.reader(finish(paused), max_in_flight=5)
    await b.connected(first)
    await b.publish(b"before")
    await b.until("a message before the pause", lambda: paused)
    first.set_max_in_flight(0)
    await b.empty()  # asked for after RDY 0
    second = b.reader(finish(other), max_in_flight=5)
    await b.connected(second)
    await b.publish(*numbered(10))
    await b.until("10 messages for the other", lambda: len(other) >= 10)
    second.close()
    first.set_max_in_flight(5)
    await b.publish(b"resumed")
    await b.until("a message after the pause", lambda: len(paused) >= 2)
    same((bodies(other), bodies(paused)), (numbered(10), [b"before", b"resumed"]))


@job("open")
async def lookup(b):
    got = []
    reader = b.reader(finish(got), lookupd_http_addresses=["http://" + b.at.http], lookupd_poll_interval=1)
    await b.publish(*numbered(10))
    await b.until("10 messages", lambda: len(got) >= 10)
    same(bodies(got), numbered(10))
    assert reader.conns, "no connection"


@job("open")
async def requeue_with_backoff(b):
    seen, intervals, good = {}, [], []

    def handler(message):
        intervals.append(reader.backoff_timer.get_interval())
        if message.body == b"good":
            good.append(message)
            return True
        attempts = seen.setdefault(message.body, [])
        attempts.append(message.attempts)
        return len(attempts) == 3
    reader = b.reader(handler, max_in_flight=5, max_backoff_duration=1, requeue_delay=0, max_tries=100)
    await b.publish(*numbered(4))
    await b.until("each message three times", lambda: sum(map(len, seen.values())) >= 12)
    await b.publish(*[b"good"] * 20)
    await b.until("the end of the backoff", lambda: len(good) >= 20 and reader.backoff_block_completed
                  and reader.backoff_timer.get_interval() == 0)
    await b.empty()
    same(({body: len(a) for body, a in seen.items()}, len(good)), (dict.fromkeys(numbered(4), 3), 20))
    for attempts in seen.values():
        same(attempts, [1, 2, 3])
    assert max(intervals) > 0, "no backoff"


@job("open")
async def requeue_with_a_delay(b):
    got, came = [], []

    def handler(message):
        came.append(time.monotonic())
        keep(got)(message)
        if message.attempts == 1:
            message.requeue(backoff=False, time_ms=400)
        else:
            message.finish()
    b.reader(handler)
    await b.publish(b"x")
    await b.until("the message again", lambda: len(got) >= 2)
    await b.empty()
    same([(m.id, m.attempts) for m in got], [(got[0].id, 1), (got[0].id, 2)])
    assert came[1] - came[0] >= 0.395, came


@job("open")
async def giving_up(b):
    got = []

    def handler(message):
        got.append(message)
        raise ValueError("on purpose")
    reader = b.reader(handler, max_tries=3, max_backoff_duration=0.1, requeue_delay=0)
    await b.publish(b"x")
    await b.until("the message to be given up", lambda: reader.given_up)
    await b.empty()
    same([m.attempts for m in got + reader.given_up], [1, 2, 3, 4])


@job("open")
async def finish_later(b):
    held = []
    b.reader(keep(held), max_in_flight=30)
    await b.publish(*numbered(30))
    await b.until("30 messages", lambda: len(held) >= 30)
    for message in reversed(held):
        message.finish()
    await b.empty()
    same((bodies(held), [m.attempts for m in held]), (numbered(30), [1] * 30))


@job("open")
async def coroutine_as_handler(b):
    got = []

    async def handler(message):
        await asyncio.sleep(0)
        got.append(message)
        return message.attempts == 2
    b.reader(handler, requeue_delay=0, max_backoff_duration=0.1)
    await b.publish(b"x")
    await b.until("the message again", lambda: len(got) >= 2)
    await b.empty()
    same([m.attempts for m in got], [1, 2])


@job("open")
async def touch(b):
    held = []
    b.reader(keep(held), msg_timeout=4)
    for attempt in range(5):  # another message where this process itself came late
        await b.publish(b"x")
        await b.until("a message", lambda: held)
        message, late = held.pop(), False
        began = touched = time.monotonic()
        while time.monotonic() - began < 6:
            await asyncio.sleep(0.2)
            late = late or time.monotonic() - touched > 1
            message.touch()
            touched = time.monotonic()
        if not late:
            same([m.attempts for m in held], [])
            message.finish()
            return await b.empty()
        for m in held + [message]:
            m.finish()
        held.clear()
        await b.empty()
    raise AssertionError("this process was late in every attempt")


@job("open")
async def message_timeout(b):
    first, second, came = [], [], []

    def handler(message):
        keep(first)(message)
        slow.set_max_in_flight(0)
    slow = b.reader(handler, msg_timeout=1)
    await b.connected(slow)
    began = time.monotonic()
    await b.publish(b"x")
    await b.until("the message", lambda: first)
    b.reader(lambda m: came.append(time.monotonic()) or keep(second)(m), msg_timeout=LONG)
    await b.until("the message after its timeout", lambda: second)
    same((second[0].id, second[0].attempts), (first[0].id, len(first) + 1))
    assert came[0] - began >= 0.99, came[0] - began
    first[0].finish()
    await b.until("the answer to a late FIN", lambda: slow.errors)
    refused(slow.errors[0], "E_FIN_FAILED")
    assert slow.conns, "the connection is gone"
    second[0].finish()
    await b.empty()


@job("open")
async def heartbeats(b):
    writer, got = await b.writer(heartbeat_interval=2), []
    reader = b.reader(finish(got), heartbeat_interval=2)
    await b.until("3 heartbeats each", lambda: writer.beats >= 3 and reader.beats >= 3)
    same(await b.send(writer, "pub", b"alive"), b"OK")
    await b.until("the message", lambda: got)
    same((writer.errors, reader.errors), ([], []))


@job("open")
async def close_gives_back(b):
    held, got = [], []
    reader = b.reader(keep(held), max_in_flight=10, msg_timeout=LONG)
    await b.publish(*numbered(10))
    await b.until("10 messages", lambda: len(held) >= 10)
    held.pop().finish()
    b.waits_for = "the FIN to be known"
    while (await b.channels())["c"]["in_flight_count"] != 9:
        await asyncio.sleep(0.02)
    reader.close()
    b.reader(finish(got), max_in_flight=10)
    await b.until("9 messages again", lambda: len(got) >= 9)
    await b.empty()
    same((bodies(got), [m.attempts for m in got]), (bodies(held), [2] * 9))


@job("open")
async def ephemeral_channel(b):
    got = []
    reader = b.reader(finish(got), "passing#ephemeral")
    await b.connected(reader)
    await b.publish(*numbered(10))
    await b.until("10 messages", lambda: len(got) >= 10)
    same(set(await b.channels()), {"passing#ephemeral"})
    reader.close()
    b.waits_for = "the channel to be gone"
    while await b.channels():
        await asyncio.sleep(0.02)
    same(bodies(got), numbered(10))


@job("open")
async def ephemeral_topic(b):
    b.topic += "#ephemeral"
    got = []
    reader = b.reader(finish(got), "passing#ephemeral")
    await b.connected(reader)
    await b.publish(*numbered(10))
    await b.until("10 messages", lambda: len(got) >= 10)
    reader.close()
    b.waits_for = "the topic to be gone"
    while await b.channels() is not None:
        await asyncio.sleep(0.02)
    same(bodies(got), numbered(10))


@job("open")
async def sampling(b):
    got = []
    b.reader(finish(got), sample_rate=50, max_in_flight=100)
    await b.publish(*numbered(1000))
    await b.empty()
    assert 300 < len(got) < 700, "%d of 1000 are no half" % len(got)  # 12 standard deviations


@job("open")
async def sync_connection(b):
    def talk():
        conn = nsq.SyncConn(timeout=PATIENCE)
        conn.connect(b.at.tcp.split(":")[0], int(b.at.tcp.split(":")[1]))

        def say(command):
            conn.send(command)
            return nsq.unpack_response(conn.read_response())
        ok = (nsq.FRAME_TYPE_RESPONSE, b"OK")
        same(say(nsq.identify({"client_id": "sync", "heartbeat_interval": 60000})), ok)
        same(say(nsq.pub(b.topic, b"x")), ok)
        same(say(nsq.subscribe(b.topic, "c")), ok)
        frame, text = say(nsq.ready(1))
        message = nsq.decode_message(text)
        same((frame, message.body, message.attempts), (nsq.FRAME_TYPE_MESSAGE, b"x", 1))
        frame, text = say(nsq.finish("0" * 16))
        same((frame, text[:12]), (nsq.FRAME_TYPE_ERROR, b"E_FIN_FAILED"))
        conn.send(nsq.finish(message.id))
        return conn
    conn = await asyncio.to_thread(talk)
    await b.empty()
    conn.s.close()


# What is between the client and the wire.


async def round_trip(b, kind, **options):
    """Publishes and reads over connections that were upgraded to streams of this kind.

    pynsq 0.9.1 with tornado 6.1 and later loses its connection when what comes next, by
    itself, is no whole piece of a compressed stream: it raises OSError(EWOULDBLOCK), which
    tornado does not take for BlockingIOError. So what is read is small and comes singly;
    what is written may be of any size.
    """
    writer, got = await b.writer(**options), []
    for conn in writer.conns.values():
        same(type(conn.socket).__name__, kind)
    big = os.urandom(200000) + b"a line of text\n" * 20000
    same(await b.send(writer, "pub", big, topic=b.topic + "_big"), b"OK")
    same(await b.send(writer, "mpub", numbered(50)), b"OK")
    same(await b.send(writer, "pub", b"a line of text\n" * 30), b"OK")
    reader = b.reader(finish(got), **options)
    await b.until("51 messages", lambda: len(got) >= 51)
    for conn in reader.conns.values():
        same(type(conn.socket).__name__, kind)
    await b.empty()
    same(bodies(got), sorted(numbered(50) + [b"a line of text\n" * 30]))
    b.topic += "_big"
    b.reader(finish(got), auth_secret=options.get("auth_secret"))
    await b.until("the big message", lambda: len(got) >= 52)
    assert got[51].body == big, "another body"


def tls(b):
    return {"tls_v1": True, "tls_options": {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": b.at.ca}}


@job("open")
async def snappy(b):
    await round_trip(b, "SnappySocket", snappy=True)


@job("open")
async def deflate(b):
    await round_trip(b, "DeflateSocket", deflate=True)


@job("open")
async def deflate_level(b):
    await round_trip(b, "DeflateSocket", deflate=True, deflate_level=1)


@job("open")
async def tls_v1(b):
    await round_trip(b, "SSLSocket", **tls(b))


@job("open")
async def tls_with_snappy(b):
    await round_trip(b, "SnappySocket", snappy=True, **tls(b))


@job("open")
async def tls_with_deflate(b):
    await round_trip(b, "DeflateSocket", deflate=True, **tls(b))


@job("open")
async def output_buffer(b):
    await round_trip(b, "socket", output_buffer_size=64, output_buffer_timeout=25)


# With an auth server.


@job("auth")
async def auth(b):
    await round_trip(b, "socket", auth_secret=b.at.secret)


@job("auth")
async def auth_over_tls_with_snappy(b):
    await round_trip(b, "SnappySocket", snappy=True, auth_secret=b.at.secret, **tls(b))


@job("auth")
async def auth_with_another_secret(b):
    writer = b.new_writer(auth_secret="barley")
    await b.until("the answer to AUTH", lambda: writer.errors)
    refused(writer.errors[0], "E_AUTH_FAILED")
    assert not writer.conns, "the writer takes the connection for usable"


@job("auth")
async def auth_left_out(b):
    refused(await b.send(await b.writer(), "pub", b"x"), "E_AUTH_FIRST")
    reader = b.reader(finish([]))
    await b.until("the answer to SUB", lambda: reader.errors)
    refused(reader.errors[0], "E_AUTH_FIRST")


@job("auth")
async def auth_for_another_topic(b):
    writer = await b.writer(auth_secret=b.at.secret)
    refused(await b.send(writer, "pub", b"x", topic="forbidden"), "E_UNAUTHORIZED")


async def run(function, at):
    """Does a job. Returns what went wrong, an empty text when nothing did."""
    b = Bench(function.__name__, at)
    try:
        await asyncio.wait_for(function(b), PATIENCE)
        return ""
    except asyncio.TimeoutError:
        return "waits for " + b.waits_for
    except Exception:
        return traceback.format_exc()
    finally:
        b.close()


async def main(at):
    jobs = JOBS[at.group]
    results = await asyncio.gather(*(run(function, at) for function in jobs))
    for number, (function, wrong) in enumerate(zip(jobs, results), 1):
        print("%s %d - %s" % ("not ok" if wrong else "ok", number, function.__name__))
        for line in wrong.splitlines():
            print("  " + line)
    return any(results)


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    parser = argparse.ArgumentParser()
    parser.add_argument("group", choices=JOBS)
    parser.add_argument("--tcp", required=True, help="the node to meet")
    parser.add_argument("--http", required=True, help="its HTTP address")
    parser.add_argument("--ca", required=True, help="file with the authority of its certificate")
    parser.add_argument("--secret", default="sesame", help="of AUTH")
    options = parser.parse_args()
    with open_url(options, "/nodes") as nodes:
        options.all = ["%s:%d" % (p["broadcast_address"], p["tcp_port"]) for p in json.load(nodes)["producers"]]
    sys.exit(asyncio.run(main(options)))
