package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	plotWidth  = 820
	labelWidth = 260 // the names of the rows
	valueWidth = 60  // right of the longest bar
	barHeight  = 13
	rowGap     = 9
	headHeight = 64
	footHeight = 30
)

// The scale ends between these ratios. A longer bar is cut off; its value is printed.
const leastScale, mostScale = 1.2, 2.0

// colours are for the ways in the order in which the plot names them. They are visible on white and
// on black.
var colours = []string{"#2f7de1", "#e08a1e", "#2aa876", "#a368d8", "#d9534f", "#7a8a99"}

// plotStyle makes the text readable on both, as the reader's program prefers.
const plotStyle = `<style>
text { fill: #1f2328 } .faint { fill: #656d76 } .line { stroke: #656d76 } .one { stroke: #1f2328 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9198a1 } .line { stroke: #656d76 } .one { stroke: #e6edf3 } }
</style>
`

// plotted is a row with its bars.
type plotted struct {
	name string
	bars []plottedBar
}

type plottedBar struct {
	way   string
	ratio float64
}

// plot draws a bar for each way of each row: how many times as good it is as the direct connection,
// or as the limit where the row's bar is one. It draws nothing for a row that has neither.
func (r *Report) plot(out io.Writer) error {
	rows := r.plotted()
	ways := plottedWays(rows)
	scale := plotScale(rows)
	var b strings.Builder
	y := headHeight
	for _, row := range rows {
		y += row.draw(&b, y, ways, scale) + rowGap
	}
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="12">
%s%s%s%s</svg>
`, plotWidth, y+footHeight, plotStyle, r.plotHead(ways), plotAxis(scale, y), b.String())
	return err
}

func (r *Report) plotted() (rows []plotted) {
	for _, row := range r.measured() {
		p := plotted{name: row.Name}
		for _, v := range row.views() {
			ratio := v.direct
			if row.Bar != nil && row.Bar.Against == "" {
				ratio = row.better(v.median, row.Bar.Limit)
			}
			if ratio > 0 && !math.IsInf(ratio, 0) { // neither unknown nor negative, as a growth may be
				p.bars = append(p.bars, plottedBar{way: v.way, ratio: ratio})
			}
		}
		if len(p.bars) > 0 {
			rows = append(rows, p)
		}
	}
	return rows
}

// plottedWays returns the ways that have bars. The order does not depend on which row was measured
// first.
func plottedWays(rows []plotted) (ways []string) {
	for _, row := range rows {
		for _, b := range row.bars {
			if !slices.Contains(ways, b.way) {
				ways = append(ways, b.way)
			}
		}
	}
	slices.Sort(ways)
	return ways
}

func plotScale(rows []plotted) float64 {
	scale := leastScale
	for _, row := range rows {
		for _, b := range row.bars {
			scale = max(scale, b.ratio)
		}
	}
	return min(scale, mostScale)
}

// plotX returns where a ratio is.
func plotX(ratio, scale float64) float64 {
	return labelWidth + min(ratio, scale)/scale*(plotWidth-labelWidth-valueWidth)
}

func (r *Report) plotHead(ways []string) string {
	var b strings.Builder
	text := func(x, y float64, class, format string, args ...any) {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" class="%s">%s</text>`+"\n", x, y, class,
			html.EscapeString(fmt.Sprintf(format, args...)))
	}
	text(8, 16, "", "%s: times as good as the direct connection, or as the bar where it is a limit",
		r.Suite)
	text(8, 32, "faint", "%s. %s.", r.Machine, r.method())
	x := 8.0
	for i, way := range ways {
		fmt.Fprintf(&b, `<rect x="%.0f" y="42" width="11" height="11" fill="%s"/>`+"\n", x, colour(i))
		text(x+16, 52, "", "%s", way)
		x += 40 + 7*float64(len(way))
	}
	return b.String()
}

func colour(i int) string { return colours[i%len(colours)] }

func plotAxis(scale float64, bottom int) string {
	var b strings.Builder
	for tick := 0.0; tick <= scale+1e-9; tick += 0.25 {
		class, width := "line", 0.4
		if tick == 1 {
			class, width = "one", 1.4
		}
		x := plotX(tick, scale)
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" class="%s" stroke-width="%g"/>`+"\n",
			x, x, headHeight-4, bottom, class, width)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" class="faint">%.2f</text>`+"\n",
			x, bottom+16, tick)
	}
	return b.String()
}

// draw draws a row, and returns its height.
func (p plotted) draw(b *strings.Builder, top int, ways []string, scale float64) (height int) {
	height = len(p.bars) * barHeight
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-10,
		top+height/2+4, html.EscapeString(p.name))
	for i, bar := range p.bars {
		y, end := top+i*barHeight, plotX(bar.ratio, scale)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", labelWidth, y,
			end-labelWidth, barHeight-2, colour(slices.Index(ways, bar.way)))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" font-size="10" class="faint">%.2f</text>`+"\n", end+4,
			y+barHeight-3, bar.ratio)
	}
	return height
}
