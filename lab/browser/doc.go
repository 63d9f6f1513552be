// Package browser drives headless Chromium, for tests of pages. A test fails if its page has an
// error, or requests anything that the test does not allow.
//
//	p := browser.Open(t, address, 1280, 800)
//	p.Wait(`document.querySelectorAll('tr').length === 3`)
//	browser.Want(p, `document.title`, "Orders")
package browser
