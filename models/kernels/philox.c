/* What numpy draws from its Philox generator, the same bits in less time: float32 normal numbers, coins, and
   Laplace numbers.

   Streams are numpy's own: this code reads and writes the record that numpy keeps of a generator, and either may go on where
   the other stopped. */
#include <math.h>
#include <stdint.h>
#include <string.h>

struct philox { /* numpy's record */
    uint64_t *counter, *key;
    int spent;          /* words of the last block */
    uint64_t block[4];
    int odd;            /* whether `half` is a half word that is left of a 32-bit draw */
    uint32_t half;
};

enum { AHEAD = 64, LAYERS = 256 }; /* blocks that are made at once; strips of the ziggurat */

struct words { /* what comes next in a stream */
    uint64_t next[4 * AHEAD];
    int size, fresh; /* fresh: not from numpy's last block */
};

/* Philox4x64-10 (Salmon et al. 2011): four words from each value of a counter, here the one that lies `ahead`. No stream lives
   to see its low word overflow. */
static inline void block(const struct philox *of, uint64_t ahead, uint64_t *to) {
    uint64_t a = of->counter[0] + ahead, b = of->counter[1], c = of->counter[2], d = of->counter[3];
    uint64_t k = of->key[0], l = of->key[1];
    for (int round = 0; round < 10; round++, k += 0x9E3779B97F4A7C15, l += 0xBB67AE8584CAA73B) {
        unsigned __int128 left = (unsigned __int128)0xD2E7470EE14C6C93 * a;
        unsigned __int128 right = (unsigned __int128)0xCA5A826395121157 * c;
        a = (uint64_t)(right >> 64) ^ b ^ k, b = (uint64_t)right;
        c = (uint64_t)(left >> 64) ^ d ^ l, d = (uint64_t)left;
    }
    memcpy(to, (uint64_t[]){a, b, c, d}, 4 * sizeof(uint64_t));
}

static void look_ahead(const struct philox *of, struct words *to) {
    to->fresh = of->spent == 4;
    to->size = to->fresh ? 4 * AHEAD : 4 - of->spent;
    if (!to->fresh) memcpy(to->next, of->block + of->spent, to->size * sizeof(uint64_t));
    for (int i = 0; to->fresh && i < AHEAD; i++) block(of, 1 + i, to->next + 4 * i);
}

/* Tells numpy that the first `count` words are spent. */
static void spend(struct philox *of, const struct words *words, int count) {
    int last = (count - 1) / 4;
    if (words->fresh) {
        of->counter[0] += last + 1;
        memcpy(of->block, words->next + 4 * last, sizeof of->block);
        of->spent = count - 4 * last;
    } else
        of->spent += count;
}

/* Writes the places of the coins that fall below `chance` * 2^53, where a place is not negative; returns how many. */
int coins(struct philox *of, int count, uint64_t chance, const int32_t *places, int32_t *to) {
    struct words words;
    int heads = 0;
    for (int at = 0; at < count; at += words.size) {
        look_ahead(of, &words);
        int here = count - at < words.size ? count - at : words.size;
        for (int i = 0; i < here; i++) {
            to[heads] = places[at + i];
            heads += (words.next[i] >> 11 < chance) & (places[at + i] >= 0);
        }
        spend(of, &words, here);
    }
    return heads;
}

/* The first `count` Laplace numbers of each of some streams, which are given by their keys. */
void laplaces(int streams, int count, uint64_t *keys, double *to) {
    uint64_t zero[4] = {};
    for (int i = 0; i < streams; i++) {
        struct philox of = {.counter = zero, .key = keys + 2 * i};
        uint64_t words[4];
        for (int drawn = 0, at = 0; drawn < count; at++) {
            if (at % 4 == 0) block(&of, 1 + at / 4, words);
            double u = (words[at % 4] >> 11) * (1.0 / 9007199254740992.0);
            if (u > 0) *to++ = u >= 0.5 ? -log(2 - u - u) : log(u + u), drawn++;
        }
    }
}

struct halves { /* 32-bit draws: the half that was left, or both halves of some words */
    struct philox *of;
    struct words words;
    uint32_t next[8 * AHEAD];
    int left, spent, size;
};

static void settle(struct halves *h) {
    int taken = h->spent - h->left, count = (taken + 1) / 2;
    if (count) {
        spend(h->of, &h->words, count);
        h->of->half = h->words.next[count - 1] >> 32;
    }
    h->of->odd = taken & 1;
}

static uint32_t draw(struct halves *h) {
    if (h->spent == h->size) {
        settle(h);
        look_ahead(h->of, &h->words);
        memcpy(h->next, h->words.next, h->words.size * sizeof(uint64_t));
        h->left = h->spent = 0, h->size = 2 * h->words.size;
    }
    return h->next[h->spent++];
}

static float uniform(struct halves *h) { return (draw(h) >> 8) * (1.0f / 16777216.0f); }

/* The ziggurat (Marsaglia & Tsang 2000): where a strip ends, how much of it lies under the curve, the curve at its end. */
static float wide[LAYERS], height[LAYERS];
static uint32_t inner[LAYERS];
static const double END = 3.6541528853610088; /* of the lowest strip, where the tail begins */

void build_ziggurat(void) {
    double area = END * exp(-END * END / 2) + sqrt(acos(-1) / 2) * erfc(END / sqrt(2)), x = END, before = 0;
    wide[0] = area / exp(-END * END / 2) / 8388608, height[0] = 1;
    inner[0] = lround(END / (area / exp(-END * END / 2)) * 8388608);
    for (int i = LAYERS - 1; i; i--, x = before) {
        before = i > 1 ? sqrt(-2 * log(area / x + exp(-x * x / 2))) : 0;
        wide[i] = x / 8388608, height[i] = exp(-x * x / 2), inner[i] = lround(before / x * 8388608);
    }
}

/* A draw of 32 bits: eight for the strip, one for the sign, the others for how far along it. */
static inline float along(uint32_t bits) {
    float x = (int32_t)(bits >> 9) * wide[bits & 255];
    uint32_t signed_x;
    memcpy(&signed_x, &x, sizeof x);
    signed_x ^= (bits & 256) << 23;
    memcpy(&x, &signed_x, sizeof x);
    return x;
}

/* Volatile keeps a product from being fused with a sum, which would round it otherwise than numpy does. */
static float whole_draw(struct halves *h) {
    for (;;) {
        uint32_t bits = draw(h), strip = bits & 255;
        volatile float x = along(bits), product;
        if (bits >> 9 < inner[strip]) return x;
        if (strip) {
            product = (height[strip - 1] - height[strip]) * uniform(h);
            if (product + height[strip] < exp(-0.5 * x * x)) return x;
            continue;
        }
        for (;;) {
            volatile float beyond = -(float)(1 / END) * log1pf(-uniform(h)), depth = -log1pf(-uniform(h));
            product = beyond * beyond;
            if (depth + depth > product) return bits >> 17 & 1 ? -((float)END + beyond) : (float)END + beyond;
        }
    }
}

/* Standard normal numbers: strip after strip as long as none is refused, which happens once in a hundred draws. */
void normals(struct philox *of, int count, float *to) {
    struct halves h = {.of = of, .left = of->odd, .size = of->odd, .next = {of->half}};
    for (int i = 0; i < count;) {
        int spent = h.spent, most = h.size - spent < count - i ? h.size : spent + count - i;
        for (; spent < most && h.next[spent] >> 9 < inner[h.next[spent] & 255]; spent++) to[i++] = along(h.next[spent]);
        h.spent = spent;
        if (i < count) to[i++] = whole_draw(&h);
    }
    settle(&h);
}
