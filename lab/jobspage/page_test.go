package jobspage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/browser"
)

// has is true if a row of a table holds all of these texts.
func has(table string, texts ...string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#%s tbody tr')].some((row) =>
		%q.split('|').every((text) => row.innerText.includes(text)))`, table, strings.Join(texts, "|"))
}

func counts(text string) string {
	return fmt.Sprintf(`document.getElementById('counts').innerText.includes(%q)`, text)
}

func TestThePageFollowsJobs(t *testing.T) {
	s := newSite(t)
	s.serve("nightly", "hourly")
	waiting := s.shell("true", "--label", "gpu", "--priority", "7")
	p := s.open(1280, 1000)
	p.Wait(`location.hash === '#nightly' && document.querySelector('#link.live')`)
	p.Wait(has("waiting", waiting, "sh -c true", "7", "there is no worker") + ` && ` +
		counts("1 waiting"))

	one := s.work("one", "--capacity", "1")
	p.Wait(has("workers", "one", "0 of 1", "command", "assigns jobs"))
	p.Wait(has("waiting", waiting, "no worker has the label gpu"))
	gate := filepath.Join(t.TempDir(), "go")
	running := s.shell("while [ ! -e " + gate + " ]; do sleep 0.02; done")
	p.Wait(has("active", running, "sh -c 'while [", "one", "1") + ` && ` + counts("1 running"))
	p.Wait(`document.querySelectorAll('#timeline [data-worker=one] rect.running').length === 1`)

	failed := s.shell("echo it broke >&2; exit 4") // it waits for room
	p.Wait(has("waiting", failed))
	one.end(syscall.SIGKILL)
	s.work("two", "--label", "gpu")
	p.Wait(has("active", running, "two", "2", "1 worker lost"))
	p.Wait(has("failed", failed, "failed", "two", "exit code 4: it broke") + ` && !` +
		has("ended", failed))
	p.Wait(has("failed", running, "running again", "one", "was gone")) // its first attempt was lost
	p.Wait(has("ended", waiting, "done", "two") + ` && ` + counts("1 done"))
	p.Wait(`!` + has("workers", "one"))
	must.Succeed(t, os.WriteFile(gate, nil, 0o600))
	p.Wait(has("ended", running, "done", "two", "2") + ` && ` + counts("2 done") + ` && ` +
		counts("1 failed"))
	p.Wait(`!` + has("failed", running))
	p.Wait(`document.querySelectorAll('#timeline [data-worker=two] rect').length === 3`)
}

func TestAllJobsAreListedByStateAndKindAPageAtATime(t *testing.T) {
	s := newSite(t)
	s.serve("nightly")
	var ids []string
	for range 101 { // a page has 100
		ids = append(ids, s.shell("true"))
	}
	p := s.open(1280, 1000)
	p.Wait(counts("101 waiting"))
	list := func(state, kind string, text ...string) {
		browser.Eval[bool](p, fmt.Sprintf(`{ const f = document.getElementById('find').elements;
			[f.state.value, f.kind.value, f.text.value] = [%q, %q, %q]; true }`, state, kind, strings.Join(text, "")))
		p.Click(`#find button`)
	}
	list("", "command")
	p.Wait(has("all", ids[0], "sh -c true", "waiting") +
		` && document.querySelectorAll('#all tbody tr').length === 100`)
	p.Click(`#all-more`)
	p.Wait(has("all", ids[100]) + ` && document.getElementById('all-more').hidden`)
	list("done", "")
	p.Wait(`!` + has("all", ids[0]) + ` && document.getElementById('all').innerText.includes('None.')`)
	list("", "", "SH -c")
	p.Wait(has("all", ids[0]))
	list("", "command", ids[7])
	p.Wait(has("all", ids[7]) + ` && document.querySelectorAll('#all tbody tr').length === 1`)
	list("", "other")
	p.Wait(`document.getElementById('all').innerText.includes('None.')`)

	p.Do(chromedp.SendKeys(chromedp.CSS("#filter"), ids[3]))
	p.Wait(has("waiting", ids[3]) + ` && document.querySelectorAll('#waiting tbody tr').length === 1`)
}

func TestAJobIsShownWithItsAttemptsAndOutput(t *testing.T) {
	s := newSite(t)
	s.serve("nightly")
	s.work("one")
	gate := filepath.Join(t.TempDir(), "go")
	id := s.shell("echo '<b>bold</b>'; echo warned >&2; [ $RINGFENCE_ATTEMPT = 2 ] || exit 5; "+
		"echo second >&2; while [ ! -e "+gate+" ]; do sleep 0.02; done", "--retries", "1", "--backoff",
		"1s")
	p := s.open(1280, 1000)
	p.Wait(has("active", id, "1"))
	p.Click(`#active a`)
	p.Wait(`location.hash === '#nightly/` + id +
		`' && document.getElementById('job-facts').innerText.includes('` + id + `')`)
	p.Wait(has("job-history", "2", "one", "running") + ` && ` +
		has("job-history", "1", "one", "failed", "exit code 5: warned"))
	p.WantText("#job-texts", "sh -c 'echo ", "warned", "exit code 5")
	p.Wait(
		`document.getElementById('job-output').innerText.includes('Standard error so far\nwarned\nsecond')`,
	)
	must.Succeed(t, os.WriteFile(gate, nil, 0o600))
	p.Wait(has("job-history", "2", "one", "done") +
		` && document.getElementById('job-facts').innerText.includes('done')`)
	p.Wait(`document.getElementById('job-output').innerText === ''`)
	p.WantText("#job-texts", "<b>bold</b>", "Standard error\nwarned\nsecond")
	browser.Want(p,
		`document.querySelectorAll('b').length > 0 && document.querySelector('#job-texts b') === null`,
		true)
	p.Click(`#job-close`)
	p.Wait(`document.getElementById('job').hidden && location.hash === '#nightly'`)

	p.Expect("a status of 404")
	p.Do(chromedp.Navigate("http://" + s.http + "/#nightly/00000000000000000000000000"))
	p.Wait(has("job-history", "there is no such job"))
}

func TestJobsAreRetriedCancelledPausedAndRunFromThePage(t *testing.T) {
	s := newSite(t, "LEADER_HTTP_TOKEN="+secret)
	s.serve("nightly")
	s.work("one")
	failed := s.shell("exit 4")
	p := s.open(1280, 1000)
	p.Expect("a status of 401")
	p.Wait(`!document.getElementById('login').hidden`)
	p.Do(chromedp.SendKeys(chromedp.CSS("#token"), secret+"\r"))
	p.Wait(has("failed", failed, "exit code 4"))
	press := func(text string) {
		t.Helper()
		p.Wait(
			fmt.Sprintf(
				`[...document.querySelectorAll('#shown button')].some((b) => b.innerText === %q && !b.click())`,
				text,
			),
		)
	}
	press("retry") // once is not enough
	p.Wait(has("failed", failed, "retry: press again"))
	press("retry: press again")
	p.Wait(`document.getElementById('said').innerText.includes('waits again') && ` +
		has("failed", failed, "2", "exit code 4"))

	nightly := s.shell("true", "--every", "CRON_TZ=Europe/Berlin 0 3 * * *")
	p.Wait(has("waiting", nightly, "every CRON_TZ=Europe/Berlin 0 3 * * *, round 1"))
	p.Click(`#waiting a`)
	for _, text := range []string{"run now", "run now: press again"} {
		press(text)
	}
	p.Wait(has("job-history", "1, round 1", "one", "done") + ` && ` +
		has("waiting", nightly, "round 2"))
	for _, text := range []string{"pause", "pause: press again"} {
		press(text)
	}
	p.Wait(has("waiting", nightly, "paused"))
	for _, text := range []string{"resume", "resume: press again", "cancel", "cancel: press again"} {
		press(text)
	}
	p.Wait(has("ended", nightly, "cancelled") +
		` && document.getElementById('job-facts').innerText.includes('cancelled')`)
}

// Names come from other programs.
func TestNamesAreTextAndNotMarkup(t *testing.T) {
	s := newSite(t)
	s.serve("nightly")
	const hostile = `<img src=x onerror="document.title='hacked'">`
	s.work(hostile)
	id := s.shell("echo '" + hostile + "' >&2; exit 1")
	p := s.open(1280, 1000)
	p.Wait(has("workers", hostile) + ` && ` + has("failed", id, hostile))
	p.Click(`#failed a`)
	p.Wait(`document.getElementById('job-texts').innerText.includes('<img')`)
	browser.Want(p, `document.querySelectorAll('img').length`, 0)
	browser.Want(p, `document.title.includes('hacked')`, false)
	browser.Want(p, `document.querySelector('#timeline .name').textContent.includes('<img')`, true)
}

func TestThePageShowsNothingWithoutTheToken(t *testing.T) {
	s := newSite(t, "LEADER_HTTP_TOKEN="+secret)
	s.serve("nightly")
	s.work("one")
	id := s.shell("true")
	p := s.open(1280, 1000)
	p.Expect("a status of 401")
	p.Wait(`!document.getElementById('login').hidden`)
	browser.Want(p,
		`document.getElementById('shown').hidden && document.getElementById('choose').hidden`, true)
	browser.Want(p, `document.body.innerHTML.includes('nightly')`, false)

	enter := func(token string) {
		p.Do(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
	}
	enter("wrong")
	p.Wait(`document.getElementById('problem').innerText.includes('This is not the token')`)
	browser.Want(p, `document.getElementById('shown').hidden`, true)
	enter(secret)
	p.Wait(has("ended", id, "done") + ` && document.getElementById('login').hidden`)
	p.Click(`#ended a`)
	p.Wait(has("job-history", "done"))
	browser.Want(p, `(document.cookie + document.documentElement.outerHTML).includes('`+secret+`')`,
		false)

	p.Do(chromedp.Reload()) // the tab keeps it
	p.Wait(has("ended", id, "done"))
	p.Click(`#forget`)
	p.Wait(`!document.getElementById('login').hidden && document.getElementById('shown').hidden`)
	browser.Want(p, `sessionStorage.length`, 0)
	p.Do(chromedp.Reload())
	p.Wait(`!document.getElementById('login').hidden`)
}

func TestAnotherGroupIsShownByName(t *testing.T) {
	s := newSite(t)
	s.serve() // none is offered
	s.work("one")
	p := s.open(1280, 1000)
	p.Wait(`!document.getElementById('choose').hidden && document.getElementById('shown').hidden`)
	p.Do(chromedp.SendKeys(chromedp.CSS("#group"), "nightly\r"))
	p.Wait(has("workers", "one") + ` && document.title.startsWith('nightly')`)
	p.Expect("a status of 400")
	p.Do(chromedp.Navigate("http://" + s.http + "/#Bad"))
	p.Wait(`document.getElementById('problem').innerText.includes("not a group's name")`)
}

func TestAPhoneShowsEverythingWithoutScrollingSideways(t *testing.T) {
	s := newSite(t)
	s.serve("nightly")
	s.work(strings.Repeat("a_very_long_name_", 6), "--label", strings.Repeat("l", 60))
	id := s.shell("echo " + strings.Repeat("x", 300) + " >&2; exit 1")
	p := s.open(390, 844, chromedp.EmulateMobile)
	p.Wait(has("failed", id) + ` && ` + has("workers", "a_very_long_name"))
	p.Click(`#failed a`)
	p.Wait(has("job-history", "failed"))
	browser.Want(p, `document.documentElement.scrollWidth <= innerWidth`, true)
	browser.Want(p, `getComputedStyle(document.querySelector('#failed td'), '::before').content`,
		`"Job"`)
	p.Dark()
	browser.Want(p, `getComputedStyle(document.body).backgroundColor`, "rgb(14, 17, 22)")
}

func TestThePageSaysThatTheServerIsGoneAndConnectsAgain(t *testing.T) {
	s := newSite(t)
	server := s.serve("nightly")
	s.work("one")
	p := s.open(1280, 1000)
	p.Wait(has("workers", "one"))
	began := time.Now()
	server.end(syscall.SIGTERM) // the open stream does not keep it from stopping
	if code := server.cmd.ProcessState.ExitCode(); code != 128+15 ||
		time.Since(began) > 30*time.Second {
		t.Errorf("exit code %d after %s", code, time.Since(began))
	}
	p.Wait(`document.querySelector('#link.lost')`)
	p.WantText("#link", "connection lost")
	browser.Want(p, has("workers", "one"), true)
	s.serve("nightly")
	p.Wait(`document.querySelector('#link.live')`)
	id := s.shell("true")
	p.Wait(has("ended", id, "done"))
}

// TestScreenshot saves the picture of docs/jobs.md where JOBS_SCREENSHOT says.
func TestScreenshot(t *testing.T) {
	file := os.Getenv("JOBS_SCREENSHOT")
	if file == "" {
		t.Skip("JOBS_SCREENSHOT names no file")
	}
	picture(t).Screenshot(file)
}

// picture is a page that has something to show.
func picture(t *testing.T) *browser.Tab {
	t.Helper()
	s := newSite(t)
	s.serve("nightly")
	gate := filepath.Join(t.TempDir(), "go")
	first := s.work("db1:4211", "--capacity", "3", "--label", "eu")
	s.work("db2:977", "--capacity", "3", "--label", "gpu")
	p := s.open(1100, 1240)
	p.Wait(has("workers", "db1:4211") + ` && ` + has("workers", "db2:977"))
	settle := func(i int) string {
		return fmt.Sprintf("sleep %d.%d; : settle merchant %d", 1+i%4, i%7, i)
	}
	for i := range 12 {
		s.submit("--title", fmt.Sprintf("./settle.sh merchant-%d", i), "--", "sh", "-c", settle(i))
		time.Sleep(300 * time.Millisecond) // so that the picture has something to show
	}
	s.submit("--title", "./settle.sh merchant-17", "--retries", "1", "--", "sh", "-c", "echo "+
		"'merchant 17: the bank says no' >&2; exit 1")
	s.submit("--title", "./report.sh --all", "--timeout", "2s", "--", "sleep", "60")
	p.Wait(counts("2 failed"))
	last := s.submit("--title", "./export.sh ledger", "--label", "eu", "--", "sh", "-c", "while [ ! "+
		"-e "+gate+" ]; do sleep 0.1; done")
	s.submit("--title", "./backup.sh", "--every", "CRON_TZ=Europe/Berlin 0 3 * * *", "--", "true")
	p.Wait(has("active", last))
	first.end(syscall.SIGKILL)
	s.work("db3:1502", "--capacity", "3", "--label", "eu")
	p.Wait(has("workers", "db3:1502") + ` && !` + has("workers", "db1:4211") + ` && ` +
		has("active", "1 worker lost"))
	s.submit("--title", "./train.sh", "--label", "big", "--", "true")
	s.submit("--title", "./close-books.sh", "--at", "1h", "--", "true")
	p.Wait(has("waiting", "no worker has the label big"))
	p.Click(`[data-span="0"]`)
	return p
}
