package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/keel-agent/keel/adapters/tools/output"
	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var readSpec = ports.ToolSpec{
	Name: "read",
	Description: "Reads a text file of the workspace. Each line is shown behind its number and a tab. " +
		"A long file is shown in parts: offset is the first line, limit the number of lines.",
	Schema: `{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"relative to the workspace"},` +
		`"offset":{"type":"integer","minimum":1,"description":"first line; 1 when absent"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"number of lines; 2000 when absent"}},` +
		`"required":["path"],"additionalProperties":false}`,
	ReplaySafe: true, Sequential: true,
}

const (
	maxReadFile  = 64 << 20 // bytes of a file of which lines are read
	maxReadText  = 60 << 10 // bytes of a result, numbers included
	maxReadLine  = 2000     // bytes of a line that are shown
	defaultLines = 2000
)

func read(ctx context.Context, dir directory, args toolset.Arguments) (string, error) {
	name, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	f, _, err := dir.openText(name, maxReadFile)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	first, count := max(args.Integer("offset"), 1), args.Integer("limit")
	if count == 0 {
		count = defaultLines
	}
	lines := lineReader{r: bufio.NewReader(io.LimitReader(f, maxReadFile))}
	var b strings.Builder
	for lines.next(ctx) {
		if lines.number < first {
			continue
		}
		if lines.number >= first+count || b.Len() > maxReadText-maxReadLine {
			fmt.Fprintf(&b, "[more lines follow: go on with offset %d]", lines.number)
			return b.String(), nil
		}
		fmt.Fprintf(&b, "%d\t%s\n", lines.number, shown(lines.text, maxReadLine))
	}
	switch {
	case lines.err != nil:
		return "", explain(name, lines.err)
	case lines.number == 0:
		return "[the file is empty]", nil
	case lines.number < first:
		return "", fmt.Errorf("%q has only %d lines", name, lines.number)
	}
	return b.String(), nil
}

// shown is a line as a model sees it: valid UTF-8, and the end of a long one left out.
func shown(line string, limit int) string {
	line = strings.ToValidUTF8(line, "\uFFFD")
	if kept := output.Prefix(line, limit); kept != line {
		return fmt.Sprintf("%s [cut: %d more bytes]", kept, len(line)-len(kept))
	}
	return line
}

// lineReader reads lines without their ends, "\n" or "\r\n".
type lineReader struct {
	r      *bufio.Reader
	number int64 // of the line in text; the first is 1
	text   string
	err    error
}

// next reports whether there is another line; it stops when ctx ends.
func (l *lineReader) next(ctx context.Context) bool {
	if l.err = context.Cause(ctx); l.err != nil {
		return false
	}
	text, err := l.r.ReadString('\n')
	if text == "" || err != nil && !errors.Is(err, io.EOF) {
		if !errors.Is(err, io.EOF) {
			l.err = err
		}
		return false
	}
	l.number++
	l.text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	return true
}
