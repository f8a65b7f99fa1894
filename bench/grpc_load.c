/* A load generator for the gRPC benchmarks: unary calls over HTTP/2 without TLS, several streams on each connection.
 *
 * Cheaper than the usual ones, so that it is not what is measured: headers are sent as indexes after the first call, as
 * real clients do, and answers are known by their first bytes instead of being decoded. A message may hold ######
 * once: it is replaced by a six-digit number, --vary of them in turn. With --rate, calls are due at that pace whether
 * or not the server keeps up, and are timed from when they were due. Prints one JSON object; an answer that does not
 * start with --expect, or none, counts as bad and makes the status 3.
 *
 * usage: grpc_load --port N | --unix PATH --path /service/method --message FILE [--expect HEX] [--connections N]
 *                  [--streams N] [--requests N] [--seconds N] [--rate N] [--vary N]
 */
#define _GNU_SOURCE
#include "load_common.h"
#include <getopt.h>

enum {
    CONNECTIONS_MAX = 256,
    STREAMS_MAX = 256,
    SLOTS = 16384, /* a stream's place by its number; one that is still open when its place comes again is an error */
    EVENTS_MAX = 256,
    VARY_MAX = 4096,
    MESSAGE_BYTES_MAX = 2048,
    EXPECT_BYTES_MAX = 16,
    OUT_BYTES_MAX = 1 << 20,
    IN_BYTES_MAX = 1 << 18,
    SECONDS_MAX = 600,
    FRAME_HEAD = 9,
    GRPC_HEAD = 5,
    WINDOW_AT_START = 65535,
    WINDOW_MAX = 0x7fffffff,
};
enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };
static const uint32_t SETTING_STREAMS_MAX = 3;

struct options {
    uint64_t port, connections, streams, requests, seconds, vary, rate;
    const char *unix_path, *path, *message, *expect;
};

struct stream {
    uint32_t id;
    bool good;
    uint64_t due_ns;
};

struct connection {
    int fd;
    uint32_t next_id;
    uint64_t open;
    int64_t send_window;
    uint64_t unacknowledged; /* bytes received and not yet given back to the server's window */
    size_t in_len, out_len;
    struct stream slots[SLOTS];
    uint8_t in[IN_BYTES_MAX], out[OUT_BYTES_MAX];
};

struct run {
    struct options o;
    struct pace pace;
    struct connection *connections;
    char (*messages)[MESSAGE_BYTES_MAX];
    size_t message_len, expect_len;
    uint8_t expect[EXPECT_BYTES_MAX];
    uint64_t sent, bad, reply_bytes, turn;
    struct histogram latency, send_lag;
};

/* ---- writing ---- */

static void put(struct connection *c, const void *bytes, size_t len) {
    if (c->out_len + len > OUT_BYTES_MAX) fail("more than %d bytes wait to be sent", OUT_BYTES_MAX);
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

static void put_u32(struct connection *c, uint32_t n) {
    uint32_t big = htonl(n);
    put(c, &big, 4);
}

static void put_frame(struct connection *c, size_t len, uint8_t type, uint8_t flags, uint32_t stream) {
    uint8_t head[5] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags};
    put(c, head, sizeof head);
    put_u32(c, stream);
}

static void flush(struct connection *c) {
    for (size_t done = 0; done < c->out_len;) {
        ssize_t n = send(c->fd, c->out + done, c->out_len - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) fail("cannot send: %s", strerror(errno));
        if (n > 0) done += (size_t)n;
    }
    c->out_len = 0;
}

static void put_preface(struct connection *c) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    put(c, preface, sizeof preface - 1);
    put_frame(c, 12, SETTINGS, 0, 0);
    put(c, "\0\2", 2); /* no pushes */
    put_u32(c, 0);
    put(c, "\0\4", 2); /* windows of streams */
    put_u32(c, WINDOW_MAX);
    put_frame(c, 4, WINDOW_UPDATE, 0, 0);
    put_u32(c, WINDOW_MAX - WINDOW_AT_START);
}

static void put_text(uint8_t *to, size_t *len, const char *text) {
    size_t n = strlen(text);
    if (n > 126) fail("a header longer than 126 bytes: %s", text);
    to[(*len)++] = (uint8_t)n;
    memcpy(to + *len, text, n);
    *len += n;
}

/* The first call's headers enter the server's table (newest 62: te, content-type, authority, path); later calls name
 * their places there. */
static void put_headers(const struct run *r, struct connection *c, uint32_t id) {
    static const uint8_t later[] = {0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe};
    uint8_t first[512] = {0x83, 0x86};
    size_t len = 2;
    if (id != 1) {
        put_frame(c, sizeof later, HEADERS, END_HEADERS, id);
        put(c, later, sizeof later);
        return;
    }
    first[len++] = 0x44;
    put_text(first, &len, r->o.path);
    first[len++] = 0x41;
    put_text(first, &len, "127.0.0.1");
    first[len++] = 0x5f;
    put_text(first, &len, "application/grpc");
    first[len++] = 0x40;
    put_text(first, &len, "te");
    put_text(first, &len, "trailers");
    put_frame(c, len, HEADERS, END_HEADERS, id);
    put(c, first, len);
}

static void send_call(struct run *r, struct connection *c, uint64_t due, uint64_t now) {
    uint32_t id = c->next_id;
    struct stream *s = &c->slots[(id >> 1) % SLOTS];
    if (s->id != 0) fail("a call was still open after %d others on its connection", SLOTS);
    *s = (struct stream){id, false, due};
    put_headers(r, c, id);
    put_frame(c, GRPC_HEAD + r->message_len, DATA, END_STREAM, id);
    put(c, "", 1); /* not compressed */
    put_u32(c, (uint32_t)r->message_len);
    put(c, r->messages[r->sent % r->o.vary], r->message_len);
    c->next_id += 2;
    c->open++;
    c->send_window -= (int64_t)(GRPC_HEAD + r->message_len);
    record(&r->send_lag, now - due);
    r->sent++;
}

/* ---- reading ---- */

static uint32_t u32_at(const uint8_t *at) {
    uint32_t big;
    memcpy(&big, at, 4);
    return ntohl(big);
}

static struct stream *open_stream(struct connection *c, uint32_t id) {
    struct stream *s = &c->slots[(id >> 1) % SLOTS];
    if (s->id != id || id == 0) fail("a frame for stream %u, which is not open", id);
    return s;
}

static void finish(struct run *r, struct connection *c, struct stream *s) {
    record(&r->latency, now_ns() - s->due_ns);
    if (!s->good) r->bad++;
    s->id = 0;
    c->open--;
}

static void on_settings(const struct run *r, struct connection *c, uint8_t flags, const uint8_t *at, size_t len) {
    if (flags & ACK) return;
    for (size_t i = 0; i + 6 <= len; i += 6) {
        uint32_t name = (uint32_t)at[i] << 8 | at[i + 1], value = u32_at(at + i + 2);
        if (name == SETTING_STREAMS_MAX && value < r->o.streams) fail("the server allows only %u streams", value);
    }
    put_frame(c, 0, SETTINGS, ACK, 0);
}

static void on_data(struct run *r, struct connection *c, struct stream *s, const uint8_t *at, size_t len) {
    c->unacknowledged += len;
    r->reply_bytes += len;
    if (len >= GRPC_HEAD + r->expect_len && memcmp(at + GRPC_HEAD, r->expect, r->expect_len) == 0) s->good = true;
}

static void on_frame(struct run *r, struct connection *c, const uint8_t *frame, size_t len) {
    uint8_t type = frame[3], flags = frame[4];
    uint32_t id = u32_at(frame + 5) & WINDOW_MAX;
    const uint8_t *body = frame + FRAME_HEAD;
    /* A server may still reset a call that it has answered. */
    if (type == RST_STREAM && c->slots[(id >> 1) % SLOTS].id != id) return;
    if (type == DATA) on_data(r, c, open_stream(c, id), body, len);
    if (type == SETTINGS) on_settings(r, c, flags, body, len);
    if (type == WINDOW_UPDATE && id == 0) c->send_window += u32_at(body) & WINDOW_MAX;
    if (type == GOAWAY) fail("the server said goodbye with error %u", u32_at(body + 4));
    if (type == PING && !(flags & ACK)) {
        put_frame(c, 8, PING, ACK, 0);
        put(c, body, 8);
    }
    if (type == RST_STREAM) open_stream(c, id)->good = false;
    if (type == RST_STREAM || ((type == DATA || type == HEADERS) && (flags & END_STREAM)))
        finish(r, c, open_stream(c, id));
}

static void receive(struct run *r, struct connection *c) {
    ssize_t n = recv(c->fd, c->in + c->in_len, IN_BYTES_MAX - c->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) fail("the server closed a connection after %lu answers", (unsigned long)r->latency.count);
    c->in_len += (size_t)n;
    size_t at = 0;
    while (c->in_len - at >= FRAME_HEAD) {
        size_t len = (size_t)c->in[at] << 16 | (size_t)c->in[at + 1] << 8 | c->in[at + 2];
        if (FRAME_HEAD + len > IN_BYTES_MAX) fail("a frame of %zu bytes", len);
        if (c->in_len - at < FRAME_HEAD + len) break;
        on_frame(r, c, c->in + at, len);
        at += FRAME_HEAD + len;
    }
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    if (c->unacknowledged > WINDOW_MAX / 2) {
        put_frame(c, 4, WINDOW_UPDATE, 0, 0);
        put_u32(c, (uint32_t)c->unacknowledged);
        c->unacknowledged = 0;
    }
}

/* ---- the run ---- */

/* The next connection in turn with room for a call. */
static struct connection *free_connection(struct run *r) {
    for (uint64_t i = 0; i < r->o.connections; i++) {
        struct connection *c = &r->connections[r->turn++ % r->o.connections];
        if (c->open < r->o.streams && c->send_window >= (int64_t)(GRPC_HEAD + r->message_len)) return c;
    }
    return NULL;
}

/* Writes what is due. True while there is more to send. */
static bool send_due(struct run *r, uint64_t stop_ns) {
    for (struct connection *c; (c = free_connection(r)) != NULL;) {
        uint64_t now = now_ns(), due = due_ns(&r->pace, r->sent, now);
        if (r->sent >= r->o.requests || now >= stop_ns) return false;
        if (due > now) {
            wake_at(&r->pace, due);
            break;
        }
        send_call(r, c, due, now);
    }
    return true;
}

static void flush_all(struct run *r) {
    for (uint64_t i = 0; i < r->o.connections; i++)
        if (r->connections[i].out_len > 0) flush(&r->connections[i]);
}

static int connect_all(struct run *r) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) fail("epoll: %s", strerror(errno));
    for (uint64_t i = 0; i < r->o.connections; i++) {
        struct connection *c = &r->connections[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        c->fd = connect_to(r->o.port, r->o.unix_path);
        c->next_id = 1;
        c->send_window = WINDOW_AT_START;
        put_preface(c);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e) != 0) fail("epoll: %s", strerror(errno));
    }
    return epoll;
}

static double drive(struct run *r, int epoll) {
    struct epoll_event events[EVENTS_MAX];
    r->pace = new_pace(r->o.rate, epoll);
    uint64_t stop_ns = r->pace.start_ns + r->o.seconds * 1000000000;
    while (send_due(r, stop_ns) || r->latency.count < r->sent) {
        flush_all(r);
        int n = epoll_wait(epoll, events, EVENTS_MAX, ANSWER_MS_MAX);
        if (n == 0) fail("no answer for %d ms", ANSWER_MS_MAX);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL) quiet_timer(&r->pace);
            else receive(r, events[i].data.ptr);
        }
    }
    return (double)(now_ns() - r->pace.start_ns) / 1e9;
}

static void read_message(struct run *r) {
    char message[MESSAGE_BYTES_MAX];
    FILE *file = fopen(r->o.message, "r");
    if (file == NULL) fail("cannot read %s: %s", r->o.message, strerror(errno));
    r->message_len = fread(message, 1, MESSAGE_BYTES_MAX, file);
    fclose(file);
    if (r->message_len == MESSAGE_BYTES_MAX) fail("the message is longer than %d bytes", MESSAGE_BYTES_MAX - 1);
    r->messages = calloc(r->o.vary, MESSAGE_BYTES_MAX);
    if (r->messages == NULL) fail("no memory for %lu messages", (unsigned long)r->o.vary);
    for (uint64_t i = 0; i < r->o.vary; i++) {
        memcpy(r->messages[i], message, r->message_len);
        fill_hole(r->messages[i], r->message_len, i);
    }
}

static void read_expect(struct run *r) {
    for (const char *at = r->o.expect; *at != '\0'; at += 2, r->expect_len++) {
        unsigned byte;
        if (r->expect_len == EXPECT_BYTES_MAX || sscanf(at, "%2x", &byte) != 1 || at[1] == '\0')
            fail("--expect takes up to %d bytes as pairs of hex digits", EXPECT_BYTES_MAX);
        r->expect[r->expect_len] = (uint8_t)byte;
    }
}

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},    {"connections", required_argument, NULL, 'c'},
        {"unix", required_argument, NULL, 'x'},    {"requests", required_argument, NULL, 'n'},
        {"streams", required_argument, NULL, 'm'}, {"seconds", required_argument, NULL, 's'},
        {"path", required_argument, NULL, 'u'},    {"vary", required_argument, NULL, 'v'},
        {"rate", required_argument, NULL, 'r'},    {"message", required_argument, NULL, 'b'},
        {"expect", required_argument, NULL, 'e'},  {NULL, 0, NULL, 0},
    };
    struct options o = {.connections = 4, .streams = 16, .requests = 100000, .seconds = 30, .vary = 1, .expect = ""};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'p') o.port = number("port", optarg, 65535);
        else if (c == 'c') o.connections = number("connections", optarg, CONNECTIONS_MAX);
        else if (c == 'm') o.streams = number("streams", optarg, STREAMS_MAX);
        else if (c == 'n') o.requests = number("requests", optarg, 1000000000);
        else if (c == 's') o.seconds = number("seconds", optarg, SECONDS_MAX);
        else if (c == 'v') o.vary = number("vary", optarg, VARY_MAX);
        else if (c == 'r') o.rate = number("rate", optarg, 10000000);
        else if (c == 'u') o.path = optarg;
        else if (c == 'b') o.message = optarg;
        else if (c == 'x') o.unix_path = optarg;
        else if (c == 'e') o.expect = optarg;
        else exit(2);
    }
    if ((o.port == 0) == (o.unix_path == NULL) || o.path == NULL || o.message == NULL || optind != argc)
        fail("--port or --unix, --path and --message are needed, and nothing but options");
    return o;
}

int main(int argc, char **argv) {
    static struct run r;
    r.o = read_options(argc, argv);
    read_message(&r);
    read_expect(&r);
    r.connections = calloc(r.o.connections, sizeof *r.connections);
    if (r.connections == NULL) fail("no memory for %lu connections", (unsigned long)r.o.connections);
    double seconds = drive(&r, connect_all(&r));
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"requests_per_s\": %.1f, \"bad\": %lu, "
           "\"message_bytes\": %zu, \"reply_bytes\": %.1f, ",
           (unsigned long)r.latency.count, seconds, (double)r.latency.count / seconds, (unsigned long)r.bad,
           r.message_len, (double)r.reply_bytes / (double)r.latency.count);
    print_latencies(&r.latency, &r.send_lag);
    puts("}");
    return r.bad == 0 ? 0 : 3;
}
