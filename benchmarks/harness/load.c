/* Requests a second: one client for every broker that is measured, quicker than any of them.

     load HOST PORT FILE IN_FLIGHT WARM_UP_SECONDS SECONDS RATE

   FILE holds the connections: their number, and for each the ids of its transactional producer (producer id and epoch, or
   nothing) and the number of its requests. A request is its frame, the places of 64-bit offsets in it, the places of the
   producer's ids, the place of a record batch (0 for none), how the response begins behind the correlation id, whether
   this is the whole response, and the place of new ids for the producer in the response (0 for none). All numbers of the
   file are 32-bit, in the order of the machine.

   Each connection sends its requests in turn, IN_FLIGHT of them at a time and all connections at most RATE requests a
   second (0 for no limit), each with a correlation id and with offsets
   that nothing has sent before. Each response must be the expected one; only where it need not be whole it may end with
   the error CONCURRENT_TRANSACTIONS, after which the request is sent again at once, as a client has to. With such
   requests IN_FLIGHT is 1.

   Printed are answered requests a second, those that were sent again not counted, the median and the 99th percentile of
   the time to the response in microseconds, and the share of a core that the client took. */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { MAX_IN_FLIGHT = 1024, RECEIVE_BYTES = 1 << 20, MAX_LATENCIES = 1 << 24 };
enum { IDS_BYTES = 10, BATCH_LENGTH = 8, BATCH_CRC = 17, BATCH_CHECKED = 21, CONCURRENT_TRANSACTIONS = 51 };

struct request {
    uint32_t length, place_count, ids_count, batch, expected_length, is_whole, new_ids;
    unsigned char *frame, *expected;
    uint32_t *places, *ids_places;
};

struct connection {
    int socket;
    uint32_t request_count;
    struct request *requests;
    uint32_t next_to_send, next_to_receive; /* correlation ids */
    uint32_t sent_again, owed; /* requests to send as soon as the rate allows it */
    unsigned char *ids;
    double sent_s[MAX_IN_FLIGHT];
    unsigned char *received;
    size_t received_length;
};

static uint32_t *latencies_us;
static size_t latency_count;
static uint64_t next_offset;
static double rate, allowed; /* requests a second; how many may be sent now */

static void fail(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        fail("out of memory");
    return memory;
}

/* The file */

static void read_exactly(FILE *file, void *at, size_t length) {
    if (length && fread(at, length, 1, file) != 1)
        fail("the file ends too early");
}

static uint32_t read_number(FILE *file) {
    uint32_t number;
    read_exactly(file, &number, sizeof number);
    return number;
}

static void *read_bytes(FILE *file, uint32_t *length, size_t width) {
    *length = read_number(file);
    void *bytes = allocate(*length * width);
    read_exactly(file, bytes, *length * width);
    return bytes;
}

static struct connection *read_connections(const char *name, uint32_t *count) {
    FILE *file = fopen(name, "rb");
    if (!file)
        fail("the file cannot be opened");
    *count = read_number(file);
    struct connection *all = allocate(*count * sizeof *all);
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t ids_length;
        all[i].ids = read_bytes(file, &ids_length, 1);
        all[i].request_count = read_number(file);
        all[i].requests = allocate(all[i].request_count * sizeof *all[i].requests);
        for (uint32_t k = 0; k < all[i].request_count; k++) {
            struct request *request = &all[i].requests[k];
            request->frame = read_bytes(file, &request->length, 1);
            request->places = read_bytes(file, &request->place_count, sizeof *request->places);
            request->ids_places = read_bytes(file, &request->ids_count, sizeof *request->ids_places);
            request->batch = read_number(file);
            request->expected = read_bytes(file, &request->expected_length, 1);
            request->is_whole = read_number(file);
            request->new_ids = read_number(file);
        }
    }
    fclose(file);
    return all;
}

/* One connection */

static void open_connection(struct connection *c, const char *host, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int yes = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(c->socket, (struct sockaddr *)&to, sizeof to))
        fail("cannot connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    c->received = allocate(RECEIVE_BYTES);
}

/* The request with this correlation id. Each that was sent again has taken a correlation id more. */
static struct request *request_of(const struct connection *c, uint32_t correlation_id) {
    return &c->requests[(correlation_id - c->sent_again) % c->request_count];
}

static uint32_t crc32c(const unsigned char *bytes, size_t length) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1));
    }
    return ~crc;
}

/* Writes the ids of the producer into a request, and the checksum of its record batch. */
static void put_ids(const struct connection *c, const struct request *request, unsigned char *frame) {
    for (uint32_t k = 0; k < request->ids_count; k++)
        memcpy(frame + request->ids_places[k], c->ids, IDS_BYTES);
    if (request->batch) {
        unsigned char *batch = frame + request->batch;
        uint32_t length, crc;
        memcpy(&length, batch + BATCH_LENGTH, 4);
        crc = htonl(crc32c(batch + BATCH_CHECKED, ntohl(length) + BATCH_LENGTH + 4 - BATCH_CHECKED));
        memcpy(batch + BATCH_CRC, &crc, 4);
    }
}

static void send_requests(struct connection *c, unsigned count) {
    static unsigned char out[RECEIVE_BYTES];
    size_t length = 0;
    double sent_s = now_s();
    for (unsigned i = 0; i < count; i++) {
        const struct request *request = request_of(c, c->next_to_send);
        unsigned char *frame = out + length;
        if (length + request->length > sizeof out)
            fail("too many bytes in flight");
        memcpy(frame, request->frame, request->length);
        uint32_t correlation_id = htonl(c->next_to_send);
        memcpy(frame + 8, &correlation_id, 4);
        for (uint32_t k = 0; k < request->place_count; k++) {
            uint64_t offset = htobe64(++next_offset);
            memcpy(frame + request->places[k], &offset, 8);
        }
        put_ids(c, request, frame);
        c->sent_s[c->next_to_send++ % MAX_IN_FLIGHT] = sent_s;
        length += request->length;
    }
    for (size_t sent = 0; sent < length;) {
        ssize_t now = send(c->socket, out + sent, length - sent, MSG_NOSIGNAL);
        if (now <= 0)
            fail("the broker closed the connection");
        sent += (size_t)now;
    }
}

/* Checks a response. Returns whether it answers the request, which has to be sent again otherwise. */
static int check(struct connection *c, const unsigned char *frame, uint32_t length) {
    const struct request *request = request_of(c, c->next_to_receive);
    const unsigned char *body = frame + 4;
    uint32_t correlation_id, body_length = length - 4, expected = request->expected_length;
    memcpy(&correlation_id, frame, 4);
    if (ntohl(correlation_id) != c->next_to_receive)
        fail("a response has an unexpected correlation id");
    if (body_length < expected || (request->is_whole && body_length != expected))
        fail("a response has another length than the expected one");
    if (!memcmp(body, request->expected, expected)) {
        if (request->new_ids)
            memcpy(c->ids, body + request->new_ids, IDS_BYTES);
        return 1;
    }
    if (request->is_whole || body[expected - 2] != 0 || body[expected - 1] != CONCURRENT_TRANSACTIONS) {
        for (uint32_t i = 0; i < body_length && i < 64; i++)
            fprintf(stderr, "%02x", body[i]);
        fail(" is a response that is not the expected one");
    }
    c->sent_again++;
    return 0;
}

/* Receives responses and returns their number. Those of them that answer a request are added to `answered`. */
static unsigned receive_responses(struct connection *c, unsigned long *answered) {
    ssize_t length = recv(c->socket, c->received + c->received_length, RECEIVE_BYTES - c->received_length, MSG_DONTWAIT);
    if (length <= 0)
        fail("the broker closed the connection");
    c->received_length += (size_t)length;
    double received_s = now_s();
    unsigned count = 0;
    size_t at = 0;
    while (c->received_length - at >= 4) {
        uint32_t frame_length;
        memcpy(&frame_length, c->received + at, 4);
        frame_length = ntohl(frame_length);
        if (frame_length < 4 || frame_length + 4 > RECEIVE_BYTES)
            fail("a response has an impossible length");
        if (c->received_length - at < frame_length + 4)
            break;
        int is_answered = check(c, c->received + at + 4, frame_length);
        *answered += (unsigned)is_answered;
        if (is_answered && latency_count < MAX_LATENCIES)
            latencies_us[latency_count++] = (uint32_t)((received_s - c->sent_s[c->next_to_receive % MAX_IN_FLIGHT]) * 1e6);
        c->next_to_receive++;
        at += frame_length + 4;
        count++;
    }
    memmove(c->received, c->received + at, c->received_length - at);
    c->received_length -= at;
    return count;
}

/* Sends what is owed, as far as the rate allows it. */
static void send_owed(struct connection *all, uint32_t count) {
    static double last_s;
    static uint32_t turn;
    double time_s = now_s(), most = rate / 100 + 1;
    allowed += last_s ? (time_s - last_s) * rate : 0;
    allowed = allowed > most ? most : allowed;
    last_s = time_s;
    for (uint32_t i = 0; i < count && allowed >= 1; i++) {
        struct connection *c = &all[turn++ % count];
        for (; c->owed && allowed >= 1; c->owed--, allowed--)
            send_requests(c, 1);
    }
}

static unsigned long exchange(int epoll, double seconds, struct connection *all, uint32_t connection_count) {
    struct epoll_event ready[256];
    unsigned long response_count = 0;
    double end_s = now_s() + seconds;
    latency_count = 0;
    while (now_s() < end_s) {
        int count = epoll_wait(epoll, ready, 256, rate ? 1 : 1000);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait failed");
        for (int i = 0; i < count; i++) {
            unsigned responses = receive_responses(ready[i].data.ptr, &response_count);
            if (rate)
                ((struct connection *)ready[i].data.ptr)->owed += responses;
            else if (responses)
                send_requests(ready[i].data.ptr, responses);
        }
        if (rate)
            send_owed(all, connection_count);
    }
    return response_count;
}

static int compare(const void *a, const void *b) {
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

int main(int argc, char **argv) {
    if (argc != 8)
        fail("usage: load HOST PORT FILE IN_FLIGHT WARM_UP_SECONDS SECONDS RATE");
    rate = atof(argv[7]);
    int in_flight = atoi(argv[4]), epoll = epoll_create1(0);
    if (in_flight < 1 || in_flight > MAX_IN_FLIGHT)
        fail("between 1 and 1024 in flight");
    latencies_us = allocate(MAX_LATENCIES * sizeof *latencies_us);
    next_offset = (uint64_t)time(NULL) << 24;
    uint32_t count;
    struct connection *all = read_connections(argv[3], &count);
    for (uint32_t i = 0; i < count; i++) {
        open_connection(&all[i], argv[1], atoi(argv[2]));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
        send_requests(&all[i], (unsigned)in_flight);
    }
    exchange(epoll, atof(argv[5]), all, count);
    double start_s = now_s(), cpu_s_before = cpu_s();
    unsigned long response_count = exchange(epoll, atof(argv[6]), all, count);
    double duration_s = now_s() - start_s, client_cpu_s = cpu_s() - cpu_s_before;
    qsort(latencies_us, latency_count, sizeof *latencies_us, compare);
    printf("%.0f %u %u %.2f\n", (double)response_count / duration_s, latency_count ? latencies_us[latency_count / 2] : 0,
           latency_count ? latencies_us[latency_count * 99 / 100] : 0, client_cpu_s / duration_s);
    return 0;
}
