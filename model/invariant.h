/* invariant(5, …) is a claim of invariant 5 of ARCHITECTURE.md: Spin names it in what it prints. */
#define invariant(number, holds) assert(number && (holds))
