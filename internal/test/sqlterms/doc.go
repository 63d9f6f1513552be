// Package sqlterms tests the contract for programs in any language: campaign, take, bring and
// enter, as SQL functions, and with everything else that fences in the same database.
package sqlterms
