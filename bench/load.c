/* A load generator for the HTTP benchmarks: keep-alive connections, one request in flight on each.
 *
 * Bounded by a count and by a time, whichever comes first. A body may hold ###### once: it is replaced by a
 * six-digit number, --vary of them in turn, so that requests come from different users. With --rate, requests are due
 * at that pace whether or not the server keeps up, and are timed from when they were due. Prints one JSON object.
 *
 * usage: load --port N | --unix PATH [--connections N] [--requests N] [--seconds N] [--rate N] [--vary N] [--path P]
 *             [--body JSON] [--header LINE] [--varied FILE]
 *        with a body it is POSTed, without one the path is fetched with GET; each line of the file is in turn sent
 *        as a header
 */
#define _GNU_SOURCE
#include "load_common.h"
#include <getopt.h>
#include <strings.h>

enum {
    CONNECTIONS_MAX = 512,
    EVENTS_MAX = 256,
    VARY_MAX = 4096,
    REQUEST_BYTES_MAX = 4096,
    REPLY_BYTES_MAX = 65536,
    SECONDS_MAX = 600,
};

struct options {
    uint64_t port, connections, requests, seconds, vary, rate;
    const char *unix_path, *path, *body, *header, *varied;
};

struct request {
    size_t len;
    char text[REQUEST_BYTES_MAX];
};

struct connection {
    int fd;
    size_t reply_len;
    uint64_t due_ns;
    struct connection *next_idle;
    char reply[REPLY_BYTES_MAX];
};

struct run {
    struct options o;
    struct pace pace;
    struct request *requests;
    struct connection *idle;
    uint64_t sent, not_200, reply_bytes;
    struct histogram latency, send_lag;
};

/* ---- requests and replies ---- */

static void write_request(const struct options *o, const char *varied, struct request *to, uint64_t nth) {
    size_t body_len = o->body == NULL ? 0 : strlen(o->body);
    FILE *out = fmemopen(to->text, REQUEST_BYTES_MAX, "w");
    if (out == NULL) fail("no memory for a request");
    fprintf(out, "%s %s HTTP/1.1\r\nhost: 127.0.0.1\r\n", o->body == NULL ? "GET" : "POST", o->path);
    if (o->header != NULL) fprintf(out, "%s\r\n", o->header);
    if (varied != NULL) fprintf(out, "%s\r\n", varied);
    if (o->body != NULL) fprintf(out, "content-type: application/json\r\ncontent-length: %zu\r\n", body_len);
    fprintf(out, "\r\n%s", o->body == NULL ? "" : o->body);
    long len = ftell(out);
    if (fclose(out) != 0 || len < 0 || len >= REQUEST_BYTES_MAX)
        fail("the request is longer than %d bytes", REQUEST_BYTES_MAX);
    to->len = (size_t)len;
    fill_hole(to->text, to->len, nth);
}

static void write_requests(struct run *r) {
    char line[REQUEST_BYTES_MAX];
    FILE *varied = r->o.varied == NULL ? NULL : fopen(r->o.varied, "r");
    if (r->o.varied != NULL && varied == NULL) fail("cannot read %s: %s", r->o.varied, strerror(errno));
    r->requests = calloc(r->o.vary, sizeof *r->requests);
    if (r->requests == NULL) fail("no memory for %lu requests", (unsigned long)r->o.vary);
    for (uint64_t i = 0; i < r->o.vary; i++) {
        if (varied != NULL && fgets(line, sizeof line, varied) == NULL) fail("fewer lines than --vary");
        line[strcspn(line, "\n")] = '\0';
        write_request(&r->o, varied == NULL ? NULL : line, &r->requests[i], i);
    }
    if (varied != NULL) fclose(varied);
}

static bool find_length(const char *at, const char *head_end, size_t *out) {
    static const char name[] = "content-length:";
    while ((at = memmem(at, (size_t)(head_end - at), "\r\n", 2)) != NULL) {
        at += 2;
        if ((size_t)(head_end - at) < sizeof name || strncasecmp(at, name, sizeof name - 1) != 0) continue;
        *out = 0;
        for (at += sizeof name - 1; *at == ' '; at++) continue;
        for (; *at >= '0' && *at <= '9' && *out <= REPLY_BYTES_MAX; at++) *out = *out * 10 + (size_t)(*at - '0');
        return *out <= REPLY_BYTES_MAX;
    }
    return false;
}

/* True when the reply in hand is whole. */
static bool reply_is_whole(const struct connection *c) {
    const char *head_end = memmem(c->reply, c->reply_len, "\r\n\r\n", 4);
    size_t body_len;
    if (head_end == NULL) return false;
    if (!find_length(c->reply, head_end + 2, &body_len)) fail("a reply without a usable content-length");
    size_t whole = (size_t)(head_end + 4 - c->reply) + body_len;
    if (c->reply_len > whole) fail("a reply longer than its content-length");
    return c->reply_len == whole;
}

static void send_request(struct run *r, uint64_t due, uint64_t now) {
    const struct request *request = &r->requests[r->sent % r->o.vary];
    struct connection *c = r->idle;
    r->idle = c->next_idle;
    c->reply_len = 0;
    c->due_ns = due;
    record(&r->send_lag, now - due);
    /* One request is in flight and far smaller than a socket buffer, so it goes in one piece. */
    ssize_t n = send(c->fd, request->text, request->len, MSG_NOSIGNAL);
    if (n != (ssize_t)request->len) fail("cannot send: %s", n < 0 ? strerror(errno) : "cut short");
    r->sent++;
}

static void put_idle(struct run *r, struct connection *c) {
    c->next_idle = r->idle;
    r->idle = c;
}

static void receive(struct run *r, struct connection *c) {
    if (c->reply_len == REPLY_BYTES_MAX) fail("a reply longer than %d bytes", REPLY_BYTES_MAX);
    ssize_t n = recv(c->fd, c->reply + c->reply_len, REPLY_BYTES_MAX - c->reply_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) fail("the server closed a connection after %lu answers", (unsigned long)r->latency.count);
    c->reply_len += (size_t)n;
    if (!reply_is_whole(c)) return;
    record(&r->latency, now_ns() - c->due_ns);
    r->reply_bytes += c->reply_len;
    if (c->reply_len < 12 || memcmp(c->reply, "HTTP/1.1 200", 12) != 0) r->not_200++;
    put_idle(r, c);
}

/* ---- the run ---- */

/* Sends what is due. True while there is more to send. */
static bool send_due(struct run *r, uint64_t stop_ns) {
    while (r->idle != NULL) {
        uint64_t now = now_ns(), due = due_ns(&r->pace, r->sent, now);
        if (r->sent >= r->o.requests || now >= stop_ns) return false;
        if (due > now) {
            wake_at(&r->pace, due);
            break;
        }
        send_request(r, due, now);
    }
    return true;
}

static int connect_all(struct run *r, struct connection *connections) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) fail("epoll: %s", strerror(errno));
    for (uint64_t i = 0; i < r->o.connections; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i].fd = connect_to(r->o.port, r->o.unix_path);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd, &e) != 0) fail("epoll: %s", strerror(errno));
        put_idle(r, &connections[i]);
    }
    return epoll;
}

static double drive(struct run *r, int epoll) {
    struct epoll_event events[EVENTS_MAX];
    r->pace = new_pace(r->o.rate, epoll);
    uint64_t stop_ns = r->pace.start_ns + r->o.seconds * 1000000000;
    while (send_due(r, stop_ns) || r->latency.count < r->sent) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, ANSWER_MS_MAX);
        if (n == 0) fail("no answer for %d ms", ANSWER_MS_MAX);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL) quiet_timer(&r->pace);
            else receive(r, events[i].data.ptr);
        }
    }
    return (double)(now_ns() - r->pace.start_ns) / 1e9;
}

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},     {"connections", required_argument, NULL, 'c'},
        {"requests", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
        {"vary", required_argument, NULL, 'v'},     {"path", required_argument, NULL, 'u'},
        {"body", required_argument, NULL, 'b'},     {"unix", required_argument, NULL, 'x'},
        {"rate", required_argument, NULL, 'r'},     {"header", required_argument, NULL, 'h'},
        {"varied", required_argument, NULL, 't'},   {NULL, 0, NULL, 0},
    };
    struct options o = {.connections = 32, .requests = 100000, .seconds = 30, .vary = 1, .path = "/healthz"};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'p') o.port = number("port", optarg, 65535);
        else if (c == 'c') o.connections = number("connections", optarg, CONNECTIONS_MAX);
        else if (c == 'n') o.requests = number("requests", optarg, 1000000000);
        else if (c == 's') o.seconds = number("seconds", optarg, SECONDS_MAX);
        else if (c == 'v') o.vary = number("vary", optarg, VARY_MAX);
        else if (c == 'r') o.rate = number("rate", optarg, 10000000);
        else if (c == 'u') o.path = optarg;
        else if (c == 'b') o.body = optarg;
        else if (c == 'x') o.unix_path = optarg;
        else if (c == 'h') o.header = optarg;
        else if (c == 't') o.varied = optarg;
        else exit(2);
    }
    if ((o.port == 0) == (o.unix_path == NULL) || optind != argc)
        fail("--port or --unix is needed, and nothing but options");
    return o;
}

int main(int argc, char **argv) {
    static struct run r;
    r.o = read_options(argc, argv);
    write_requests(&r);
    struct connection *connections = calloc(r.o.connections, sizeof *connections);
    if (connections == NULL) fail("no memory for %lu connections", (unsigned long)r.o.connections);
    double seconds = drive(&r, connect_all(&r, connections));
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"requests_per_s\": %.1f, \"not_200\": %lu, "
           "\"request_bytes\": %zu, \"reply_bytes\": %.1f, ",
           (unsigned long)r.latency.count, seconds, (double)r.latency.count / seconds, (unsigned long)r.not_200,
           r.requests[0].len, (double)r.reply_bytes / (double)r.latency.count);
    print_latencies(&r.latency, &r.send_lag);
    puts("}");
    return r.not_200 == 0 ? 0 : 3;
}
