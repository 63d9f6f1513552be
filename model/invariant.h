/* invariant(5, …) is a claim of invariant 5 of ARCHITECTURE.md: Spin names it in what it prints.
 *
 * A goto from one atomic sequence into another lets nobody in between. So where others may come in, the label has
 * a skip of its own. */
#define invariant(number, holds) assert(number && (holds))
