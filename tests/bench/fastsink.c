/* An SMTP server that takes everything as fast as the kernel brings it, so that it is never the
 * bottleneck: one thread, epoll, PIPELINING. `fastsink DELAY_MS` prints its port; each write of
 * replies is held back by DELAY_MS. STAT is answered with the messages taken, and their bytes. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM (1 << 22)

struct talk { int fd, in_body; size_t have, searched; char *buffer; };

static long taken, octets;
static useconds_t delay;

/* Answer everything complete in the buffer; -1 ends the connection. */
static int hear(struct talk *t) {
    char out[1 << 16];
    size_t said = 0, start = 0;
    int leaving = 0;
    while (!leaving && said < sizeof out - 256) {
        char *from = t->buffer + start, *end;
        size_t left = t->have - start;
        if (t->in_body) {
            size_t skip = t->searched > 4 ? t->searched - 4 : 0;
            end = memmem(from + skip, left - skip, "\r\n.\r\n", 5);
            if (!end) { t->searched = left; break; }
            start += (size_t)(end - from) + 5;
            t->in_body = 0;
            taken++;
            octets += end + 2 - from;
            said += (size_t)sprintf(out + said, "250 taken\r\n");
            continue;
        }
        end = memmem(from, left, "\r\n", 2);
        if (!end) break;
        start += (size_t)(end - from) + 2;
        if (!strncasecmp(from, "EHLO", 4))
            said += (size_t)sprintf(out + said, "250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n");
        else if (!strncasecmp(from, "DATA", 4)) {
            t->in_body = 1;
            t->searched = 0;
            said += (size_t)sprintf(out + said, "354 go\r\n");
        } else if (!strncasecmp(from, "STAT", 4))
            said += (size_t)sprintf(out + said, "250 %ld %ld\r\n", taken, octets);
        else if (!strncasecmp(from, "QUIT", 4)) {
            said += (size_t)sprintf(out + said, "221 bye\r\n");
            leaving = 1;
        } else
            said += (size_t)sprintf(out + said, "250 ok\r\n");
    }
    memmove(t->buffer, t->buffer + start, t->have - start);
    t->have -= start;
    if (said) {
        if (delay) usleep(delay);
        if (write(t->fd, out, said) < 0) return -1;
    }
    return leaving ? -1 : 0;
}

int main(int count, char **words) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, ready[64];
    if (count > 1) delay = (useconds_t)(atof(words[1]) * 1000);
    if (bind(listener, (struct sockaddr *)&here, size) || listen(listener, 128)) return 1;
    getsockname(listener, (struct sockaddr *)&here, &size);
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    for (;;) {
        int found = epoll_wait(poll, ready, 64, -1);
        for (int n = 0; n < found; n++) {
            struct talk *t = ready[n].data.ptr;
            if (!t) {
                t = calloc(1, sizeof *t);
                t->fd = accept(listener, NULL, NULL);
                t->buffer = malloc(ROOM);
                setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event.data.ptr = t;
                epoll_ctl(poll, EPOLL_CTL_ADD, t->fd, &event);
                if (write(t->fd, "220 sink\r\n", 10) < 0) continue;
                continue;
            }
            ssize_t got = read(t->fd, t->buffer + t->have, ROOM - t->have);
            if (got > 0) t->have += (size_t)got;
            if (got <= 0 || hear(t) < 0) {
                close(t->fd);
                free(t->buffer);
                free(t);
            }
        }
    }
}
