/* Clipped gradients of a two-layer perceptron on rows that average it over short lists of nodes: one pass over one run.

   Lists hold a node or five, so that a row's activations stay in registers and in the nearest cache. */
#include "operations.h"

struct lists {
    int32_t rows, entries, hidden, classes;
    float clip;
    const float *before, *kept;    /* (rows, hidden): of each node the first layer's sums, and factors of dropout or NULL */
    const float *alive, *counted;  /* (rows,): 0 for a node that is absent, for a row that is not in the batch */
    const int64_t *index, *labels; /* (rows, entries) places of the listed nodes; (rows,) */
    const float *weights, *gram;   /* (rows, entries), and (rows, entries, entries): products of the listed nodes' features */
    const float *second;           /* (hidden, classes) weights */
    float *into, *slope;           /* written: (rows, hidden) the gradient of the first layer's sums, (hidden, classes) */
    vec *room;
};

static inline vec taken(const float *from, int left) {
    vec some = {};
    if (left >= LANES) memcpy(&some, from, sizeof some);
    else memcpy(&some, from, left * sizeof(float));
    return some;
}

static inline void added_to(float *to, int left, vec more) {
    vec some = taken(to, left) + more;
    if (left >= LANES) memcpy(to, &some, sizeof some);
    else memcpy(to, &some, left * sizeof(float));
}

static inline float product_of(int wide, const vec *a, const vec *b) {
    vec sum = {};
    for (int v = 0; v < wide; v++) sum += a[v] * b[v];
    return added(sum);
}

/* From logits to the gradient of the cross-entropy; returns its squared length. */
static float softmax_slope(int classes, int64_t label, vec *z) {
    float *at = (float *)z, top = at[0], total = 0, square = 0;
    int deep = (classes + LANES - 1) / LANES;
    for (int c = 1; c < classes; c++) top = at[c] > top ? at[c] : top;
    for (int v = 0; v < deep; v++) z[v] = power(z[v] - top);
    for (int c = classes; c < deep * LANES; c++) at[c] = 0;
    for (int v = 0; v < deep; v++) total += added(z[v]);
    for (int v = 0; v < deep; v++) z[v] /= total;
    at[label] -= 1;
    for (int v = 0; v < deep; v++) square += added(z[v] * z[v]);
    return square;
}

void clipped_rows(const struct lists *t) {
    int hidden = t->hidden, classes = t->classes, wide = (hidden + LANES - 1) / LANES, some[t->entries];
    vec *second = t->room, *slope = second + classes * wide, *averaged = slope + classes * wide, *back = averaged + wide;
    vec *through = back + wide, *z = through + t->entries * wide;
    memset(second, 0, 2 * classes * wide * sizeof(vec));
    memset(t->into, 0, (size_t)t->rows * hidden * sizeof(float));
    for (int h = 0; h < hidden; h++)
        for (int c = 0; c < classes; c++) ((float *)(second + c * wide))[h] = t->second[h * classes + c];
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t *index = t->index + r * t->entries;
        const float *weights = t->weights + r * t->entries, *gram = t->gram + r * t->entries * t->entries;
        int count = 0;
        memset(averaged, 0, wide * sizeof(vec));
        for (int e = 0; e < t->entries && t->alive[r] * t->counted[r] != 0; e++) {
            if (weights[e] == 0 || t->alive[index[e]] == 0) continue;
            for (int v = 0; v < wide; v++) {
                int64_t at = index[e] * hidden + v * LANES;
                vec before = taken(t->before + at, hidden - v * LANES);
                vec kept = t->kept ? taken(t->kept + at, hidden - v * LANES) : (vec){} + 1;
                through[count * wide + v] = either(before > 0, weights[e] * kept, (vec){});
                averaged[v] += through[count * wide + v] * before;
            }
            some[count++] = e;
        }
        if (!count) continue; /* what averages nothing has no gradient */
        for (int c = 0; c < classes; c++) ((float *)z)[c] = product_of(wide, averaged, second + c * wide);
        float squares = softmax_slope(classes, t->labels[r], z) * product_of(wide, averaged, averaged);
        memset(back, 0, wide * sizeof(vec));
        for (int c = 0; c < classes; c++)
            for (int v = 0; v < wide; v++) back[v] += ((float *)z)[c] * second[c * wide + v];
        for (int a = 0; a < count; a++) {
            for (int v = 0; v < wide; v++) through[a * wide + v] *= back[v];
            for (int b = 0; b <= a; b++)
                squares += (a == b ? 1 : 2) * gram[some[a] * t->entries + some[b]] *
                           product_of(wide, through + a * wide, through + b * wide);
        }
        float norm = sqrtf(squares > 0 ? squares : 0), scale = t->clip / (norm > 1e-12f ? norm : 1e-12f);
        scale = (scale < 1 ? scale : 1) * t->alive[r] * t->counted[r];
        for (int c = 0; c < classes; c++)
            for (int v = 0; v < wide; v++) slope[c * wide + v] += scale * ((float *)z)[c] * averaged[v];
        for (int a = 0; a < count; a++)
            for (int v = 0; v < wide; v++)
                added_to(t->into + index[some[a]] * hidden + v * LANES, hidden - v * LANES, scale * through[a * wide + v]);
    }
    for (int h = 0; h < hidden; h++)
        for (int c = 0; c < classes; c++) t->slope[h * classes + c] = ((float *)(slope + c * wide))[h];
}
