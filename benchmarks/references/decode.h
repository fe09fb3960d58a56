/* Online-softmax attention of a few query rows that share one KV head; K and V are read once for all of them.
   Must not know where the rows come from beyond their addresses.

   A register holds `rows` query rows with `span` = LANES / rows partial sums each: a run of `span` floats of a key is
   loaded once and repeated for the rows, and `span` keys of accumulators become one vector of scores by a transposing
   sum. Scores, maxima and sums keep that layout, [run of span keys][row][key], so softmax is vertical as well. */
#ifndef REFERENCES_DECODE_H
#define REFERENCES_DECODE_H

#include "vectors.h"

#define FEW_ROWS 16
#ifndef DECODE_BLOCK
#define DECODE_BLOCK 512
#endif
/* Floats between what is read and what is fetched for later, a few hundred ns of work. It halves the time of what comes
   from memory (1,32,8,1,4096,128,128: 1.2 against 2.8 ms, Zen 4, 2026-12-01); a single row is faster without. */
#ifndef AHEAD
#define AHEAD 4096
#endif
#define MOST_GROUPS 4 /* registers of rows */
#define MOST_KEYS 16
#define MOST_WEIGHED 4 /* rows that share one pass over the values */

typedef struct {
    int64_t count;
    const float *query[FEW_ROWS];
    float *out[FEW_ROWS];
    int32_t visible[FEW_ROWS];
} few_rows;

/* packed[run][group][row][t] = scale * query[group * rows + row][run * span + t], zero past the depth and the rows */
INLINE void pack_rows(const few_rows *few, float *packed, const int groups, const int rows, int64_t depth,
                      float scale) {
    const int span = LANES / rows;
    for (int row = 0; row < groups * rows; row++) {
        const float *from = few->query[row < few->count ? row : 0];
        const float by = row < few->count ? scale : 0.0f;
        float *to = packed + row / rows * LANES + row % rows * span;
        int64_t d = 0;
        for (; d + span <= depth; d += span, to += groups * LANES)
            UNROLL for (int t = 0; t < span; t++) to[t] = from[d + t] * by;
        if (d < depth)
            for (int t = 0; t < span; t++) to[t] = d + t < depth ? from[d + t] * by : 0.0f;
    }
}

/* A run of span floats of a key of which only `length` exist. */
INLINE vec load_partial_run(const float *p, const int span, int64_t length) {
    float run[LANES] = {0};
    memcpy(run, p, 4 * (size_t)length);
    return load_repeated(run, span);
}

/* The scores of `nk` keys from k on, nk a multiple of span; a key past `last` is replaced by it. */
INLINE void score_runs(const float *packed, const float *k, float *scores, int64_t last, const int clamped,
                       const int nk, const int groups, const int rows, int64_t depth) {
    const int span = LANES / rows;
    vec acc[MOST_GROUPS][MOST_KEYS];
    UNROLL for (int g = 0; g < groups; g++) UNROLL for (int t = 0; t < nk; t++) acc[g][t] = (vec){0};
#define KEY(t) (k + (clamped && t > last ? last : t) * depth)
    int64_t run = 0;
    for (; (run + 1) * span <= depth; run++) {
        if (rows > 1) UNROLL for (int at = 0; at < nk * span; at += LINE) fetch(k + AHEAD + run * nk * span + at);
        UNROLL for (int t = 0; t < nk; t++) {
            vec key = load_repeated(KEY(t) + run * span, span);
            UNROLL for (int g = 0; g < groups; g++) acc[g][t] += load(packed + (run * groups + g) * LANES) * key;
        }
    }
    if (run * span < depth)
        UNROLL for (int t = 0; t < nk; t++) {
            vec key = load_partial_run(KEY(t) + run * span, span, depth - run * span);
            UNROLL for (int g = 0; g < groups; g++) acc[g][t] += load(packed + (run * groups + g) * LANES) * key;
        }
#undef KEY
    UNROLL for (int t = 0; t < nk; t += span) UNROLL for (int g = 0; g < groups; g++)
        store(scores + (t / span * groups + g) * LANES, transposing_sum(acc[g] + t, span));
}

/* acc[row][x] = acc[row][x] * alpha + sum over n keys of weights * values, `nx` vectors of values, for the rows of
   `groups` registers. */
INLINE void weigh_runs(const float *weights, int64_t stride, const float *values, float *acc, int64_t acc_stride,
                       const float *alpha, int64_t n, const int nx, int64_t width, const int groups, const int rows,
                       int64_t value_depth) {
    const int span = LANES / rows, all = groups * rows;
    vec sum[MOST_WEIGHED][8];
#define LANE(r) ((r) / rows * LANES + (r) % rows * span)
    UNROLL for (int r = 0; r < all; r++) UNROLL for (int x = 0; x < nx; x++)
        sum[r][x] = load(acc + r * acc_stride + x * LANES) * alpha[LANE(r)];
#define ADD_KEY(t)                                                                                                  \
    UNROLL for (int x = 0; x < nx; x++) {                                                                           \
        vec value = held(load_first(values + (j + t) * value_depth + x * LANES, width - x * LANES));                \
        if (rows > 1 && x * LANES % LINE == 0) fetch(values + (j + t) * value_depth + x * LANES + AHEAD);           \
        UNROLL for (int r = 0; r < all; r++) sum[r][x] += value * run[LANE(r) + t];                                 \
    }
    int64_t j = 0;
    const float *run = weights;
    for (; j + span <= n; j += span, run += stride) UNROLL for (int t = 0; t < span; t++) ADD_KEY(t)
    for (int t = 0; j + t < n; t++) ADD_KEY(t)
#undef ADD_KEY
#undef LANE
    UNROLL for (int r = 0; r < all; r++) UNROLL for (int x = 0; x < nx; x++)
        store(acc + r * acc_stride + x * LANES, sum[r][x]);
}

INLINE int64_t block_of(int64_t keys) {
    int64_t blocks = (keys + DECODE_BLOCK - 1) / DECODE_BLOCK;
    int64_t even = (keys + blocks - 1) / blocks;
    return (even + MOST_KEYS - 1) / MOST_KEYS * MOST_KEYS;
}

/* `groups` registers of `rows` rows over keys [0, last); those before `sure` are seen by every row. */
INLINE void attend_few(const few_rows *few, const float *k, const float *v, int64_t sure, int64_t last, float scale,
                       const int groups, const int rows, const int nk, const int nx, int64_t depth,
                       int64_t value_depth) {
    const int span = LANES / rows;
    const int64_t runs = (depth + span - 1) / span, acc_stride = (value_depth + LANES - 1) / LANES * LANES;
    const int weighed = groups * rows <= MOST_WEIGHED ? groups : 1;
    float packed[runs * groups * LANES] __attribute__((aligned(64)));
    float acc[groups * rows * acc_stride] __attribute__((aligned(64)));
    float scores[(DECODE_BLOCK / span) * groups * LANES] __attribute__((aligned(64)));
    vec maximum[MOST_GROUPS], sum[MOST_GROUPS], alpha[MOST_GROUPS];
    ivec visible[MOST_GROUPS], key_in_run = lane_numbers() & (span - 1);
    UNROLL for (int g = 0; g < groups; g++) {
        maximum[g] = splat(NOTHING);
        sum[g] = (vec){0};
        int32_t seen[LANES];
        for (int l = 0; l < LANES; l++) {
            int row = g * rows + l / span;
            seen[l] = row < few->count ? few->visible[row] : 0;
        }
        memcpy(&visible[g], seen, sizeof seen);
    }
    pack_rows(few, packed, groups, rows, depth, scale);
    for (int64_t at = 0; at < groups * rows * acc_stride; at += LANES) store(acc + at, (vec){0});

    const int64_t block = last > 0 ? block_of(last) : 0;
    for (int64_t begin = 0; begin < last; begin += block) {
        int64_t n = last - begin < block ? last - begin : block, j = 0;
        for (; j + nk <= n; j += nk)
            score_runs(packed, k + (begin + j) * depth, scores + j / span * groups * LANES, 0, 0, nk, groups, rows,
                       depth);
        for (; j < n; j += span)
            score_runs(packed, k + (begin + j) * depth, scores + j / span * groups * LANES, n - 1 - j, 1, span, groups,
                       rows, depth);
        vec top[MOST_GROUPS];
        UNROLL for (int g = 0; g < groups; g++) top[g] = maximum[g];
        for (j = 0; j < n; j += span)
            UNROLL for (int g = 0; g < groups; g++) {
                float *at = scores + (j / span * groups + g) * LANES;
                vec s = load(at);
                if (begin + j + span > sure) {
                    s = choose(visible[g] > key_in_run + (int32_t)(begin + j), s, splat(HIDDEN));
                    store(at, s);
                }
                top[g] = larger(top[g], s);
            }
        UNROLL for (int g = 0; g < groups; g++) {
            top[g] = largest_of_run(top[g], span);
            alpha[g] = exp2_of(maximum[g] - top[g]);
            maximum[g] = top[g];
            sum[g] *= alpha[g];
        }
        for (j = 0; j < n; j += span)
            UNROLL for (int g = 0; g < groups; g++) {
                float *at = scores + (j / span * groups + g) * LANES;
                vec p = exp2_of(load(at) - top[g]);
                store(at, p);
                sum[g] += p;
            }
        float scale_by[MOST_GROUPS * LANES];
        UNROLL for (int g = 0; g < groups; g++) store(scale_by + g * LANES, alpha[g]);
        for (int g = 0; g < groups; g += weighed) {
            int64_t x = 0;
#define WEIGH(count, width)                                                                                         \
    weigh_runs(scores + g * LANES, groups * LANES, v + begin * value_depth + x, acc + g * rows * acc_stride + x,    \
               acc_stride, scale_by + g * LANES, n, count, width, weighed, rows, value_depth)
            for (; x + nx * LANES <= value_depth; x += nx * LANES) WEIGH(nx, nx * LANES);
            for (; x < value_depth; x += LANES) WEIGH(1, value_depth - x);
#undef WEIGH
        }
    }
    for (int g = 0; g < groups; g++) {
        /* A row that sees no key is all zeros. */
        vec total = sum_of_run(sum[g], span);
        float inverse[LANES];
        store(inverse, choose(total > 0.0f, 1.0f / total, (vec){0}));
        for (int r = 0; r < rows && g * rows + r < few->count; r++)
            for (int64_t x = 0; x < value_depth; x += LANES)
                store_first(few->out[g * rows + r] + x, load(acc + (g * rows + r) * acc_stride + x) * inverse[r * span],
                            value_depth - x);
    }
}

#endif
