/* The online reference: causal or full attention, one thread, K and V read in place.
   Folds the queries and the query heads of a KV head into rows; full tiles go to prefill.h, few rows to decode.h. */
#include "decode.h"
#include "prefill.h"
#include "problem.h"

#if !defined(DEPTH) || !defined(VALUE_DEPTH)
#error "compile with -DDEPTH=<D> -DVALUE_DEPTH=<Dv>"
#endif

/* Vectors of values a decode accumulator block is wide. */
#define VALUE_VECTORS (VALUE_DEPTH % (6 * LANES) == 0 ? 6 : VALUE_DEPTH % (5 * LANES) == 0 ? 5 : 4)
#define LOG2_E 1.4426950408889634

typedef struct {
    const problem *p;
    const float *q, *k, *v; /* of one batch entry and KV head */
    float *out;
    int64_t group;
    float scale; /* of the scores, which are powers of two */
} head;

/* Row r is query r / group of query head r % group: neighbours see nearly the same keys. */
INLINE void place_row(const head *h, int64_t r, const float **query, float **out, int32_t *visible) {
    int64_t query_at = r / h->group, row = r % h->group * h->p->queries + query_at;
    *query = h->q + row * DEPTH;
    *out = h->out + row * VALUE_DEPTH;
    *visible = (int32_t)(h->p->causal ? query_at + h->p->keys - h->p->queries + 1 : h->p->keys);
}

INLINE int64_t at_least_zero(int64_t x) { return x < 0 ? 0 : x; }

/* Each of these is compiled once; the register blocks inside them are constants. */
#define TILE(name, nv)                                                                                              \
    static __attribute__((noinline)) void name(const head *h, int64_t first, int64_t count) {                       \
        row_tile tile;                                                                                              \
        tile.count = count;                                                                                         \
        for (int64_t r = 0; r < nv * LANES; r++)                                                                    \
            place_row(h, first + (r < count ? r : count - 1), &tile.query[r], &tile.out[r], &tile.visible[r]);      \
        attend_tile(&tile, h->k, h->v, at_least_zero(tile.visible[0]), at_least_zero(tile.visible[count - 1]),      \
                    h->scale, nv, DEPTH, VALUE_DEPTH);                                                              \
    }

#define FEW(name, groups, rows, keys)                                                                               \
    static __attribute__((noinline)) void name(const head *h, int64_t first, int64_t count) {                       \
        few_rows few;                                                                                               \
        few.count = count;                                                                                          \
        for (int64_t r = 0; r < count; r++) place_row(h, first + r, &few.query[r], &few.out[r], &few.visible[r]);   \
        attend_few(&few, h->k, h->v, at_least_zero(few.visible[0]), at_least_zero(few.visible[count - 1]),          \
                   h->scale, groups, rows, keys, VALUE_VECTORS, DEPTH, VALUE_DEPTH);                                \
    }

TILE(wide_tile, 2)
TILE(narrow_tile, 1)
FEW(one_row, 1, 1, 16)
FEW(two_rows, 1, 2, 8)
FEW(four_rows, 2, 2, 8)
FEW(eight_rows, 2, 4, 8)
FEW(twelve_rows, 3, 4, 8)

static void run_head(const head *h) {
    int64_t rows = h->p->queries * h->group, r = 0;
    for (; r + 2 * LANES <= rows; r += 2 * LANES) wide_tile(h, r, 2 * LANES);
    rows -= r;
    if (rows > LANES) wide_tile(h, r, rows);
    else if (rows > 12) narrow_tile(h, r, rows);
    else if (rows > 8) twelve_rows(h, r, rows);
    else if (rows > 4) eight_rows(h, r, rows);
    else if (rows > 2) four_rows(h, r, rows);
    else if (rows > 1) two_rows(h, r, rows);
    else if (rows > 0) one_row(h, r, rows);
}

/* q[B,Hq,Q,D], k[B,Hkv,K,D], v[B,Hkv,K,Dv], out[B,Hq,Q,Dv], contiguous. */
void online_attention(const float *q, const float *k, const float *v, float *out, const problem *p) {
    head h = {.p = p, .group = p->query_heads / p->kv_heads, .scale = (float)(p->scale * LOG2_E)};
    for (int64_t b = 0; b < p->batch * p->kv_heads; b++) {
        h.q = q + b * h.group * p->queries * DEPTH;
        h.k = k + b * p->keys * DEPTH;
        h.v = v + b * p->keys * VALUE_DEPTH;
        h.out = out + b * h.group * p->queries * VALUE_DEPTH;
        run_head(&h);
    }
}
