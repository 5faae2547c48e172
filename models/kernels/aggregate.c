/* Sums of rows over lists of senders. The rows of a large table lie anywhere, so each is fetched long before it is added. */
#include "vectors.h"

enum { LINE = 16, AHEAD = 64 }; /* floats of a cache line; arcs between a fetch and its use */
typedef float eight __attribute__((vector_size(32), aligned(4)));
typedef float most __attribute__((vector_size(4 * LANES), aligned(4)));

/* out[i] = the sum of the rows of senders[starts[i]] … senders[starts[i + 1] - 1], added in that order. */
#define SUMS(name, type, count)                                                                                   \
    static void name(int64_t nodes, const int64_t *starts, const int32_t *senders, const type *rows, type *out) { \
        int64_t last = starts[nodes] - 1;                                                                         \
        for (int64_t i = 0; i < nodes; i++) {                                                                     \
            type total[count] = {};                                                                               \
            for (int64_t arc = starts[i]; arc < starts[i + 1]; arc++) {                                           \
                const type *next = rows + count * (int64_t)senders[arc + AHEAD < last ? arc + AHEAD : last];      \
                const type *row = rows + count * (int64_t)senders[arc];                                           \
                for (int v = 0; v < count; v += LINE / LANES) __builtin_prefetch(next + v, 0, 2);                 \
                for (int v = 0; v < count; v++) total[v] += row[v];                                               \
            }                                                                                                     \
            for (int v = 0; v < count; v++) out[count * i + v] = total[v];                                        \
        }                                                                                                         \
    }

SUMS(sums8, eight, 1)
SUMS(sums16, most, 16 / LANES)
SUMS(sums32, most, 32 / LANES)
SUMS(sums64, most, 64 / LANES)

/* Returns 0 for a width that there is no loop for. */
int add_up(int width, int64_t nodes, const int64_t *starts, const int32_t *senders, const void *rows, void *out) {
    if (width == 8) sums8(nodes, starts, senders, rows, out);
    else if (width == 16) sums16(nodes, starts, senders, rows, out);
    else if (width == 32) sums32(nodes, starts, senders, rows, out);
    else if (width == 64) sums64(nodes, starts, senders, rows, out);
    else return 0;
    return 1;
}
