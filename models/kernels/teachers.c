/* Trains one GraphSAGE network on a small graph, epoch after epoch, so that all it touches stays in the nearest caches.

   Activations are (rows, units), units padded with zeros to whole vectors. The first layer reads inputs, sparse or dense, that hold
   their mean over the neighbours already; every further one reads its rows and, where a row has neighbours, their mean. */
#include "vectors.h"

enum { TALL = 6, WIDE = LANES / 4 };        /* of a product at a time: 24 sums of 32 registers, or 12 of 16 */
enum { LAYERS = 8, WIDEST = 4096 / LANES }; /* at most; widest in vectors */

struct sparse {
    const int32_t *starts, *which;
    const float *entries;
};

struct teacher {
    int32_t hidden, classes;                        /* layers before the last */
    int32_t rows, first_row, columns, first_column; /* the network's part of the matrices, which hold many networks' */
    int32_t epochs, steps, epoch_bits;              /* steps: taken before; bits: bytes of `kept` an epoch */
    float rate, factor;                             /* factor: of what dropout keeps */
    const int32_t *widths;                          /* vectors of each layer's outputs */
    struct sparse inputs, back, arcs;               /* what the first layer reads, its transpose, the mean over the neighbours */
    const float *dense;           /* (rows, columns): what the first layer reads instead, or NULL */
    const vec *wanted;            /* (rows, classes): each row's label distribution times its weight */
    const uint8_t *kept;          /* for each epoch and hidden layer a bit for every activation, or NULL */
    vec *numbers, *mean, *square; /* as `teach` orders them, and Adam's moments of them */
    vec *running;                 /* for each hidden layer the remembered mean and variance of its batch norm */
    vec *room;
    int32_t *receivers;
};

struct layer {
    int inputs, outputs;                          /* units that are read (first layer: columns), vectors that are written */
    vec *neighbours, *own, *scale, *shift, *bias; /* the first layer has `own` alone, the last no batch norm */
    vec *unit, *y, *around, *inverse;             /* normalised rows, outputs, means over neighbours, 1 / deviation */
};

struct step {
    const struct teacher *t;
    float rate, below; /* bias-corrected */
};

/* y = x w for `count` rows and `wide` vectors; x[r * down + i * right]. */
static inline __attribute__((always_inline)) void panel(
    int count, int wide, int inputs, const float *x, int down, int right, const vec *w, vec *y, int length) {
    vec sum[TALL][WIDE] = {};
    for (int i = 0; i < inputs; i++)
        for (int r = 0; r < count; r++)
            for (int v = 0; v < wide; v++) sum[r][v] += x[(int64_t)r * down + (int64_t)i * right] * w[(int64_t)i * length + v];
    for (int r = 0; r < count; r++)
        for (int v = 0; v < wide; v++) y[(int64_t)r * length + v] = sum[r][v];
}

static inline __attribute__((always_inline)) void panels(
    int wide, int rows, int inputs, const float *x, int down, int right, const vec *w, vec *y, int length) {
    for (; rows > 0; rows -= TALL, x += (int64_t)TALL * down, y += (int64_t)TALL * length) switch (rows) {
            case 1: panel(1, wide, inputs, x, down, right, w, y, length); break;
            case 2: panel(2, wide, inputs, x, down, right, w, y, length); break;
            case 3: panel(3, wide, inputs, x, down, right, w, y, length); break;
            case 4: panel(4, wide, inputs, x, down, right, w, y, length); break;
            case 5: panel(5, wide, inputs, x, down, right, w, y, length); break;
            default: panel(6, wide, inputs, x, down, right, w, y, length);
        }
}

/* y = x w; w is (inputs, length vectors), y (rows, length vectors). */
static void times(int rows, int inputs, int length, const float *x, int down, int right, const vec *w, vec *y) {
    int v = 0;
    for (; v + WIDE <= length; v += WIDE) panels(WIDE, rows, inputs, x, down, right, w + v, y + v, length);
    for (; v < length; v++) panels(1, rows, inputs, x, down, right, w + v, y + v, length);
}

/* to[o][i] = from[i][o]; a line of `from` has `wide` vectors, one of `to` has inputs / LANES. */
static void flipped(int inputs, int wide, const vec *from, vec *to) {
    for (int i = 0; i < inputs; i += LANES)
        for (int v = 0; v < wide; v++) {
            vec a[LANES];
            for (int l = 0; l < LANES; l++) a[l] = from[(i + l) * wide + v];
            turned(a);
            for (int l = 0; l < LANES; l++) to[(v * LANES + l) * (inputs / LANES) + i / LANES] = a[l];
        }
}

/* One step of Adam with torch.optim's betas and epsilon. */
static inline void adam_step(const struct step *s, int size, const float *restrict gradient, vec *at) {
    float *restrict x = (float *)at, *restrict mean = (float *)(s->t->mean + (at - s->t->numbers));
    float *restrict square = (float *)(s->t->square + (at - s->t->numbers));
    for (int i = 0; i < size; i++) {
        float g = gradient[i];
        mean[i] += 0.1f * (g - mean[i]);
        square[i] = 0.999f * square[i] + 0.001f * g * g;
        x[i] -= s->rate * mean[i] / (sqrtf(square[i]) * s->below + 1e-8f);
    }
}

/* to = the sum of the lines that a row of the matrix names, each times its entry. Lines are counted from `offset`. */
static inline __attribute__((always_inline)) void strip(
    int wide, const struct sparse *m, int row, int offset, int length, const vec *from, vec *to) {
    vec sum[WIDE] = {};
    for (int k = m->starts[row]; k < m->starts[row + 1]; k++)
        for (int v = 0; v < wide; v++) sum[v] += m->entries[k] * from[(int64_t)(m->which[k] - offset) * length + v];
    for (int v = 0; v < wide; v++) to[v] = sum[v];
}

static void gather(const struct sparse *m, int row, int offset, int length, const vec *from, vec *to) {
    int v = 0;
    for (; v + WIDE <= length; v += WIDE) strip(WIDE, m, row, offset, length, from + v, to + v);
    for (; v < length; v++) strip(1, m, row, offset, length, from + v, to + v);
}

/* The step of the first layer's weights, whose gradient is never stored as a whole. */
static void features_step(const struct step *s, int wide, const vec *dz, vec *weight) {
    const struct teacher *t = s->t;
    vec gradient[WIDEST];
    for (int c = 0, count; c < t->columns; c += count) {
        count = WIDEST / wide;
        count = t->columns - c < count ? t->columns - c : count;
        if (t->dense) times(count, t->rows, wide, t->dense + c, 1, t->columns, dz, gradient);
        for (int j = 0; j < count && !t->dense; j++)
            gather(&t->back, t->first_column + c + j, t->first_row, wide, dz, gradient + j * wide);
        adam_step(s, count * wide * LANES, (float *)gradient, weight + (int64_t)c * wide);
    }
}

/* The gradient of the means over neighbours, handed on to those. */
static void scatter(const struct teacher *t, int receivers, int wide, const vec *d, vec *dy) {
    for (int j = 0; j < receivers; j++, d += wide) {
        int row = t->first_row + t->receivers[j];
        for (int k = t->arcs.starts[row]; k < t->arcs.starts[row + 1]; k++)
            for (int v = 0; v < wide; v++) dy[(int64_t)(t->arcs.which[k] - t->first_row) * wide + v] += t->arcs.entries[k] * d[v];
    }
}

/* Batch norm, ReLU and dropout of the rows in l->unit, which become normalised; l->y gets what the next layer reads. */
static void activate(const struct teacher *t, const struct layer *l, vec *running, const uint8_t *kept) {
    whole bit;
    for (int i = 0; i < LANES; i++) bit[i] = 1 << (i ^ 7); /* the first of eight is the highest bit of a byte */
    int wide = l->outputs;
    float count = t->rows > 1 ? t->rows : 1;
    for (int v = 0; v < wide; v++) {
        vec mean = {}, variance = {}, inverse;
        for (int r = 0; r < t->rows; r++) mean += l->unit[r * wide + v];
        mean /= count;
        for (int r = 0; r < t->rows; r++) {
            vec centred = l->unit[r * wide + v] - mean;
            variance += centred * centred;
        }
        running[v] += MOMENTUM * (mean - running[v]);
        running[wide + v] += MOMENTUM * (variance / (count > 1 ? count - 1 : 1) - running[wide + v]);
        variance = variance / count + EPSILON;
        for (int i = 0; i < LANES; i++) inverse[i] = 1 / sqrtf(variance[i]);
        l->inverse[v] = inverse;
        for (int r = 0; r < t->rows; r++) {
            vec unit = (l->unit[r * wide + v] - mean) * inverse, y = l->shift[v] + unit * l->scale[v];
            l->unit[r * wide + v] = unit;
            y = either(y > 0, y, (vec){});
            if (kept) {
                int32_t bits = 0;
                memcpy(&bits, kept + LANES / 8 * (r * wide + v), LANES / 8);
                y = either((bit & bits) != 0, y * t->factor, (vec){});
            }
            l->y[r * wide + v] = y;
        }
    }
}

/* From the gradient of l->y to that of what `activate` read, in place, and a step of scale and shift. */
static void activate_backward(const struct step *s, const struct layer *l, vec *d) {
    int wide = l->outputs, rows = s->t->rows;
    for (int v = 0; v < wide; v++) {
        vec shift = {}, scale = {}, slope = l->scale[v] * l->inverse[v];
        for (int r = 0; r < rows; r++) {
            vec slant = either(l->y[r * wide + v] > 0, d[r * wide + v] * s->t->factor, (vec){});
            d[r * wide + v] = slant;
            shift += slant;
            scale += slant * l->unit[r * wide + v];
        }
        for (int r = 0; r < rows; r++)
            d[r * wide + v] = slope * (d[r * wide + v] - (shift + scale * l->unit[r * wide + v]) / (float)rows);
        adam_step(s, LANES, (float *)&shift, l->shift + v);
        adam_step(s, LANES, (float *)&scale, l->scale + v);
    }
}

/* Turns logits into the gradient of the cross-entropy. */
static void softmax_backward(const struct teacher *t, int wide, const vec *logits, vec *z) {
    memcpy(z, logits, t->rows * wide * sizeof(vec));
    for (int r = 0; r < t->rows; r++, z += wide) {
        const vec *wanted = t->wanted + r * wide;
        float *at = (float *)z, top = at[0], total = 0, weight = 0;
        for (int c = 1; c < t->classes; c++) top = at[c] > top ? at[c] : top;
        for (int v = 0; v < wide; v++) z[v] = power(z[v] - top), weight += added(wanted[v]);
        for (int c = t->classes; c < wide * LANES; c++) at[c] = 0;
        for (int v = 0; v < wide; v++) total += added(z[v]);
        for (int v = 0; v < wide; v++) z[v] = z[v] * (weight / total) - wanted[v];
    }
}

/* Where each layer keeps its numbers and activations; returns the room that is left. */
static vec *laid_out(const struct teacher *t, struct layer *layers, int receivers) {
    vec *at = t->numbers, *room = t->room;
    for (int i = 0; i <= t->hidden; i++) {
        struct layer *l = layers + i;
        l->outputs = t->widths[i];
        l->inputs = i ? layers[i - 1].outputs * LANES : t->columns;
        if (i) l->neighbours = at, at += (int64_t)l->inputs * l->outputs;
        l->own = at, at += (int64_t)l->inputs * l->outputs;
        l->unit = room, room += (int64_t)t->rows * l->outputs;
        if (i == t->hidden) {
            l->bias = at;
            continue;
        }
        l->scale = at, at += l->outputs;
        l->shift = at, at += l->outputs;
        l->inverse = room, room += l->outputs;
        l->y = room, room += (int64_t)t->rows * l->outputs;
        l->around = room, room += (int64_t)receivers * l->outputs;
    }
    return room;
}

static void predict(const struct teacher *t, struct layer *layers, int receivers, const uint8_t *kept, vec *room) {
    vec *running = t->running;
    for (struct layer *l = layers; l <= layers + t->hidden; l++) {
        int wide = l->outputs;
        if (l == layers) {
            if (t->dense) times(t->rows, t->columns, wide, t->dense, t->columns, 1, l->own, l->unit);
            for (int r = 0; r < t->rows && !t->dense; r++)
                gather(&t->inputs, t->first_row + r, t->first_column, wide, l->own, l->unit + r * wide);
        } else {
            int deep = l[-1].outputs;
            for (int j = 0; j < receivers; j++)
                gather(&t->arcs, t->first_row + t->receivers[j], t->first_row, deep, l[-1].y, l[-1].around + j * deep);
            times(t->rows, l->inputs, wide, (float *)l[-1].y, l->inputs, 1, l->own, l->unit);
            times(receivers, l->inputs, wide, (float *)l[-1].around, l->inputs, 1, l->neighbours, room);
            for (int j = 0; j < receivers; j++)
                for (int v = 0; v < wide; v++) l->unit[t->receivers[j] * wide + v] += room[j * wide + v];
        }
        if (l < layers + t->hidden) {
            activate(t, l, running, kept);
            running += 2 * wide;
            kept = kept ? kept + LANES / 8 * t->rows * wide : kept;
        } else
            for (int r = 0; r < t->rows; r++)
                for (int v = 0; v < wide; v++) l->unit[r * wide + v] += l->bias[v];
    }
}

/* Takes a step with the weights of a layer after the first, and writes the gradient of what it read. */
static void learn(const struct step *s, const struct layer *l, int receivers, const vec *dz, vec *dy, vec *room) {
    const struct teacher *t = s->t;
    int inputs = l->inputs, deep = inputs / LANES, wide = l->outputs;
    vec *own = room, *around = own + receivers * wide, *weight = around + receivers * deep;
    for (int j = 0; j < receivers; j++)
        for (int v = 0; v < wide; v++) own[j * wide + v] = dz[t->receivers[j] * wide + v];
    flipped(inputs, wide, l->own, weight);
    times(t->rows, wide * LANES, deep, (float *)dz, wide * LANES, 1, weight, dy);
    flipped(inputs, wide, l->neighbours, weight);
    times(receivers, wide * LANES, deep, (float *)own, wide * LANES, 1, weight, around);
    scatter(t, receivers, deep, around, dy);
    times(inputs, t->rows, wide, (float *)l[-1].y, 1, inputs, dz, weight);
    adam_step(s, inputs * wide * LANES, (float *)weight, l->own);
    times(inputs, receivers, wide, (float *)l[-1].around, 1, inputs, own, weight);
    adam_step(s, inputs * wide * LANES, (float *)weight, l->neighbours);
}

/* How many numbers there are in a vector, to which units are padded. */
int lanes(void) { return LANES; }

/* Numbers, layer after layer: the first layer's weights (columns, outputs), those of any other for neighbours and own
   (inputs, outputs); behind those of a hidden layer scale and shift, behind the last ones the bias. */
void teach(const struct teacher *t) {
    struct layer layers[LAYERS] = {}, *last = layers + t->hidden;
    int receivers = 0, widest = 0;
    for (int r = 0; r < t->rows; r++)
        if (t->arcs.starts[t->first_row + r] < t->arcs.starts[t->first_row + r + 1]) t->receivers[receivers++] = r;
    vec *d = laid_out(t, layers, receivers), *other;
    for (int i = 0; i <= t->hidden; i++) widest = t->widths[i] > widest ? t->widths[i] : widest;
    other = d + (int64_t)t->rows * widest;
    for (int epoch = 0; epoch < t->epochs; epoch++) {
        double steps = t->steps + epoch + 1;
        struct step s = {t, t->rate / (1 - pow(0.9, steps)), 1 / sqrt(1 - pow(0.999, steps))};
        vec *dz = d, *dy = other, *room = other + (int64_t)t->rows * widest;
        predict(t, layers, receivers, t->kept ? t->kept + (int64_t)epoch * t->epoch_bits : 0, room);
        softmax_backward(t, last->outputs, last->unit, dz);
        for (int v = 0; v < last->outputs; v++) {
            vec sum = {};
            for (int r = 0; r < t->rows; r++) sum += dz[r * last->outputs + v];
            adam_step(&s, LANES, (float *)&sum, last->bias + v);
        }
        for (struct layer *l = last; l > layers; l--) {
            learn(&s, l, receivers, dz, dy, room);
            activate_backward(&s, l - 1, dy);
            vec *free = dz;
            dz = dy;
            dy = free;
        }
        features_step(&s, layers->outputs, dz, layers->own);
    }
}
