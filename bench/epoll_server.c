/* The yardstick for the node's HTTP server: about the least a server can do for the same request and reply.
 *
 * One thread, epoll, keep-alive, HTTP/1.1 on 127.0.0.1. Parses the request head and a flat JSON object of facts,
 * decides five fixed-window limits together (all or nothing), and answers a decision shaped like the node's.
 * It is also what gateways stand before: GET of anything below /items/ is answered with a few items.
 * Only what a well-behaved load generator sends is understood; everything else is answered 400 and closed.
 *
 * usage: epoll_server [PORT]     port 0 (the default) takes a free one; the first line printed names the address
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    EVENTS_MAX = 256,
    IN_BYTES = 16384,
    OUT_BYTES = 16384,
    REPLY_BYTES_MAX = 4096,
    BODY_BYTES_MAX = 8192,
    HEADERS_MAX = 64,
    FACT_BYTES_MAX = 256,
    FACTS_MAX = 16,
    LIMITS = 5,
    SLOTS = 1 << 20, /* a power of two */
    PROBES_MAX = 16,
    WINDOW_S = 3600,
    LIMIT = 1000000000,
};

struct slice {
    const char *at;
    size_t len;
};

struct facts {
    struct slice user, org, ip, path, method, tier;
    uint64_t cost;
};

struct counter {
    uint64_t key;
    uint32_t window; /* index of the aligned window `used` belongs to */
    uint32_t used;
};

struct request {
    struct slice method, target, body;
    bool close;
};

struct connection {
    int fd;
    bool closing, writing; /* close once written; waiting for EPOLLOUT */
    size_t in_len, out_at, out_len;
    char in[IN_BYTES];
    char out[OUT_BYTES];
};

/* A bounded writer: what does not fit is dropped and remembered, never written past the end. */
struct text {
    char *at, *end;
    bool cut;
};

static struct counter counters[SLOTS];
static const char *const rule_names[LIMITS] = {"by-user", "by-org", "by-ip", "by-endpoint", "everyone"};

static const char items_path[] = "/items/", items[] = "{\"items\":[\"a\",\"b\",\"c\"],\"next\":null}";

static bool slice_is(struct slice s, const char *word) {
    return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

static bool slice_begins(struct slice s, const char *word) {
    return s.len >= strlen(word) && memcmp(s.at, word, strlen(word)) == 0;
}

static void put(struct text *t, const char *bytes, size_t len) {
    if (len == 0) return;
    if ((size_t)(t->end - t->at) < len) {
        t->cut = true;
        return;
    }
    memcpy(t->at, bytes, len);
    t->at += len;
}

static void put_word(struct text *t, const char *word) { put(t, word, strlen(word)); }

static void put_number(struct text *t, uint64_t n) {
    char digits[20];
    size_t i = sizeof digits;
    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    put(t, digits + i, sizeof digits - i);
}

/* Seconds with six decimals, or none when they are whole. */
static void put_seconds(struct text *t, uint64_t us) {
    char decimals[7] = {'.'};
    uint64_t rest = us % 1000000;
    put_number(t, us / 1000000);
    if (rest == 0) return;
    for (int i = 6; i > 0; i--, rest /= 10) decimals[i] = (char)('0' + rest % 10);
    put(t, decimals, sizeof decimals);
}

/* ---- the request ---- */

static bool parse_number(struct slice s, uint64_t most, uint64_t *out) {
    if (s.len == 0 || s.len > 9) return false;
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9') return false;
        n = n * 10 + (uint64_t)(s.at[i] - '0');
    }
    *out = n;
    return n <= most;
}

static struct slice trim(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
    return (struct slice){at, (size_t)(end - at)};
}

static bool name_is(struct slice s, const char *name) {
    return s.len == strlen(name) && strncasecmp(s.at, name, s.len) == 0;
}

static bool parse_request_line(const char *at, const char *end, struct request *r) {
    const char *space = memchr(at, ' ', (size_t)(end - at));
    if (space == NULL) return false;
    const char *target = space + 1;
    const char *second = memchr(target, ' ', (size_t)(end - target));
    if (second == NULL) return false;
    r->method = (struct slice){at, (size_t)(space - at)};
    r->target = (struct slice){target, (size_t)(second - target)};
    return slice_is((struct slice){second + 1, (size_t)(end - second - 1)}, "HTTP/1.1");
}

/* Bytes used by the first whole request, 0 when more must come, -1 when it cannot be understood. */
static long parse_request(const char *in, size_t len, struct request *r) {
    const char *head_end = memmem(in, len, "\r\n\r\n", 4);
    if (head_end == NULL) return len == IN_BYTES ? -1 : 0;
    const char *line_end = memmem(in, (size_t)(head_end + 2 - in), "\r\n", 2);
    if (!parse_request_line(in, line_end, r)) return -1;
    uint64_t body_len = 0;
    int headers = 0;
    for (const char *at = line_end + 2; at < head_end + 2; at = line_end + 2) {
        if (++headers > HEADERS_MAX) return -1;
        line_end = memmem(at, (size_t)(head_end + 2 - at), "\r\n", 2);
        const char *colon = memchr(at, ':', (size_t)(line_end - at));
        if (colon == NULL || colon == at) return -1;
        struct slice name = {at, (size_t)(colon - at)}, value = trim(colon + 1, line_end);
        if (name_is(name, "content-length")) {
            if (!parse_number(value, BODY_BYTES_MAX, &body_len)) return -1;
        } else if (name_is(name, "transfer-encoding")) {
            return -1;
        } else if (name_is(name, "connection")) {
            r->close = name_is(value, "close");
        }
    }
    size_t head_len = (size_t)(head_end + 4 - in);
    if (head_len + body_len > IN_BYTES) return -1;
    if (len < head_len + body_len) return 0;
    r->body = (struct slice){in + head_len, (size_t)body_len};
    return (long)(head_len + body_len);
}

static const char *skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* A JSON string without escapes; NULL when it is anything else. */
static const char *parse_string(const char *at, const char *end, struct slice *out) {
    if (at == end || *at != '"') return NULL;
    const char *start = ++at;
    while (at < end && *at != '"') {
        if (*at == '\\' || (unsigned char)*at < 0x20) return NULL;
        at++;
    }
    if (at == end || at - start > FACT_BYTES_MAX) return NULL;
    *out = (struct slice){start, (size_t)(at - start)};
    return at + 1;
}

static struct slice *fact_named(struct facts *f, struct slice name) {
    if (slice_is(name, "user")) return &f->user;
    if (slice_is(name, "org")) return &f->org;
    if (slice_is(name, "ip")) return &f->ip;
    if (slice_is(name, "path")) return &f->path;
    if (slice_is(name, "method")) return &f->method;
    if (slice_is(name, "tier")) return &f->tier;
    return NULL;
}

static const char *parse_fact(const char *at, const char *end, struct facts *f) {
    struct slice name;
    at = parse_string(at, end, &name);
    if (at == NULL) return NULL;
    at = skip_space(at, end);
    if (at == end || *at != ':') return NULL;
    at = skip_space(at + 1, end);
    if (slice_is(name, "cost")) {
        const char *start = at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        return parse_number((struct slice){start, (size_t)(at - start)}, LIMIT, &f->cost) ? at : NULL;
    }
    struct slice *fact = fact_named(f, name);
    return fact == NULL ? NULL : parse_string(at, end, fact);
}

static bool parse_facts(struct slice body, struct facts *f) {
    const char *end = body.at + body.len, *at = skip_space(body.at, end);
    if (at == end || *at != '{') return false;
    for (int n = 0; n < FACTS_MAX; n++) {
        at = parse_fact(skip_space(at + 1, end), end, f);
        if (at == NULL) return false;
        at = skip_space(at, end);
        if (at == end) return false;
        if (*at == '}') return skip_space(at + 1, end) == end;
        if (*at != ',') return false;
    }
    return false;
}

/* ---- the decision ---- */

static uint64_t fnv(uint64_t rule, struct slice value) {
    uint64_t h = (14695981039346656037ULL ^ rule) * 1099511628211ULL;
    for (size_t i = 0; i < value.len; i++) h = (h ^ (unsigned char)value.at[i]) * 1099511628211ULL;
    return h;
}

/* The counter of `key`, started anew in a new window. When all probes are taken the first is given up: good enough
 * for a yardstick, and no more work than a real table does. */
static struct counter *counter_of(uint64_t key, uint32_t window) {
    struct counter *free_one = NULL;
    for (unsigned i = 0; i < PROBES_MAX; i++) {
        struct counter *c = &counters[((key ^ (key >> 32)) + i) & (SLOTS - 1)];
        if (c->key == key && c->window == window) return c;
        if (c->window != window && free_one == NULL) free_one = c;
        if (c->window == 0) break;
    }
    if (free_one == NULL) free_one = &counters[(key ^ (key >> 32)) & (SLOTS - 1)];
    *free_one = (struct counter){key, window, 0};
    return free_one;
}

static void put_result(struct text *t, int i, uint64_t used, uint64_t reset_us, bool fits) {
    put_word(t, "{\"rule\":\"");
    put_word(t, rule_names[i]);
    put_word(t, "\",\"label\":\"0\",\"allowed\":");
    put_word(t, fits ? "true" : "false");
    put_word(t, ",\"limit\":");
    put_number(t, LIMIT);
    put_word(t, ",\"remaining\":");
    put_number(t, LIMIT - used);
    put_word(t, ",\"retry_after\":");
    put_seconds(t, fits ? 0 : reset_us);
    put_word(t, ",\"reset_after\":");
    put_seconds(t, reset_us);
    put_word(t, "}");
}

static void decide(const struct facts *f, uint64_t now_us, struct text *t) {
    const struct slice values[LIMITS] = {f->user, f->org, f->ip, f->path, {"", 0}};
    const uint64_t window_us = (uint64_t)WINDOW_S * 1000000;
    const uint64_t reset_us = window_us - now_us % window_us;
    struct counter *met[LIMITS];
    bool fits[LIMITS], allowed = true;
    int binding = 0;
    for (int i = 0; i < LIMITS; i++) {
        met[i] = counter_of(fnv((uint64_t)i, values[i]), (uint32_t)(now_us / window_us));
        fits[i] = met[i]->used + f->cost <= LIMIT;
        allowed = allowed && fits[i];
    }
    for (int i = 0; i < LIMITS; i++) {
        if (allowed) met[i]->used += (uint32_t)f->cost;
        if (met[i]->used > met[binding]->used) binding = i;
    }
    put_word(t, allowed ? "{\"allowed\":true,\"limit\":" : "{\"allowed\":false,\"limit\":");
    put_number(t, LIMIT);
    put_word(t, ",\"remaining\":");
    put_number(t, LIMIT - met[binding]->used);
    put_word(t, ",\"retry_after\":");
    put_seconds(t, allowed ? 0 : reset_us);
    put_word(t, ",\"reset_after\":");
    put_seconds(t, reset_us);
    put_word(t, ",\"rule\":\"");
    put_word(t, rule_names[binding]);
    put_word(t, allowed ? "\",\"path\":\"store\",\"degraded\":false,\"status\":200,\"results\":["
                        : "\",\"path\":\"store\",\"degraded\":false,\"status\":429,\"results\":[");
    for (int i = 0; i < LIMITS; i++) {
        if (i != 0) put_word(t, ",");
        put_result(t, i, met[i]->used, reset_us, fits[i]);
    }
    put_word(t, "]}");
}

/* ---- the reply ---- */

/* The Date header changes once a second, so it is written once a second. */
static struct slice date_header(time_t now_s) {
    static time_t written_s;
    static char line[64];
    static size_t len;
    if (now_s != written_s) {
        struct tm utc;
        gmtime_r(&now_s, &utc);
        len = strftime(line, sizeof line, "date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
        written_s = now_s;
    }
    return (struct slice){line, len};
}

static void put_reply(struct text *t, const char *status, time_t now_s, struct slice body) {
    struct slice date = date_header(now_s);
    put_word(t, "HTTP/1.1 ");
    put_word(t, status);
    put_word(t, body.len != 0 ? "\r\ncontent-type: application/json\r\ncontent-length: " : "\r\ncontent-length: ");
    put_number(t, body.len);
    put_word(t, "\r\n");
    put(t, date.at, date.len);
    put_word(t, "\r\n");
    put(t, body.at, body.len);
}

static bool answer(const struct request *r, struct text *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct facts f = {.cost = 1};
    char bytes[REPLY_BYTES_MAX];
    struct text body = {bytes, bytes + sizeof bytes, false};
    bool get = slice_is(r->method, "GET"), post = slice_is(r->method, "POST"), ok = false;
    if (get && slice_is(r->target, "/healthz")) {
        ok = true;
    } else if (get && slice_begins(r->target, items_path)) {
        put_word(&body, items);
        ok = true;
    } else if (post && slice_is(r->target, "/v1/_empty")) {
        ok = parse_facts(r->body, &f);
    } else if (post && slice_is(r->target, "/v1/check")) {
        ok = parse_facts(r->body, &f);
        if (ok) decide(&f, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, &body);
    }
    ok = ok && !body.cut;
    size_t body_len = ok ? (size_t)(body.at - bytes) : 0;
    put_reply(t, ok ? "200 OK" : "400 Bad Request", now.tv_sec, (struct slice){bytes, body_len});
    return ok;
}

/* ---- connections ---- */

static void drop(struct connection *c) {
    close(c->fd); /* which also takes it out of the epoll set */
    free(c);
}

/* False when the connection is finished. */
static bool flush_out(int epoll, struct connection *c) {
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) return false;
        if (n < 0) break;
        c->out_at += (size_t)n;
    }
    bool waiting = c->out_at < c->out_len;
    if (!waiting) c->out_at = c->out_len = 0;
    if (waiting != c->writing) {
        struct epoll_event e = {.events = waiting ? EPOLLOUT : EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e) != 0) return false;
        c->writing = waiting;
    }
    return waiting || !c->closing;
}

/* Answers every whole request in hand for which a reply is sure to fit; true when there was one. */
static bool answer_all(struct connection *c) {
    size_t used = 0;
    while (!c->closing && OUT_BYTES - c->out_len >= REPLY_BYTES_MAX + 512) {
        struct request r = {.close = false};
        struct text t = {c->out + c->out_len, c->out + OUT_BYTES, false};
        long n = parse_request(c->in + used, c->in_len - used, &r);
        if (n == 0) break;
        if (n < 0) {
            put_reply(&t, "400 Bad Request", time(NULL), (struct slice){"", 0});
            c->closing = true;
        } else {
            c->closing = !answer(&r, &t) || r.close;
            used += (size_t)n;
        }
        c->out_len = (size_t)(t.at - c->out);
    }
    if (used != 0) memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
    return used != 0;
}

/* False when the connection is finished. */
static bool serve(int epoll, struct connection *c, uint32_t events) {
    if (!(events & EPOLLOUT)) {
        ssize_t n = recv(c->fd, c->in + c->in_len, IN_BYTES - c->in_len, 0);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (n == 0) return false;
        c->in_len += (size_t)n;
    } else if (!flush_out(epoll, c)) {
        return false;
    }
    /* More may be in hand than replies fit at once, and no further event would tell. */
    while (!c->writing && answer_all(c)) {
        if (!flush_out(epoll, c)) return false;
    }
    return c->writing || !c->closing || flush_out(epoll, c);
}

/* True when one more connection was taken on. */
static bool take_connection(int epoll, int listener, int open) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return false;
    struct connection *c = open < CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    int on = 1;
    if (c == NULL || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        close(fd);
        free(c);
        return false;
    }
    c->fd = fd;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0) return true;
    drop(c);
    return false;
}

static int listen_on(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, CONNECTIONS_MAX) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        fprintf(stderr, "epoll_server: cannot listen on 127.0.0.1:%u: %s\n", port, strerror(errno));
        exit(1);
    }
    printf("127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    uint64_t port = 0;
    if (argc > 2 || (argc == 2 && !parse_number((struct slice){argv[1], strlen(argv[1])}, 65535, &port))) {
        fprintf(stderr, "usage: epoll_server [PORT]\n");
        return 2;
    }
    int listener = listen_on((uint16_t)port), epoll = epoll_create1(EPOLL_CLOEXEC), open = 0;
    struct epoll_event events[EVENTS_MAX], e = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0) {
        perror("epoll_server: epoll");
        return 1;
    }
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (n < 0 && errno != EINTR) {
            perror("epoll_server: epoll_wait");
            return 1;
        }
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c == NULL) {
                open += take_connection(epoll, listener, open);
            } else if (!serve(epoll, c, events[i].events)) {
                drop(c);
                open--;
            }
        }
    }
}
