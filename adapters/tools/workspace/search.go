package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/keel-agent/keel/adapters/tools/toolset"
	"github.com/keel-agent/keel/ports"
)

var globSpec = ports.ToolSpec{
	Name: "glob",
	Description: "Finds files of the workspace by a pattern such as **/*.go or src/{a,b}/*.ts; ** stands for any number of directories. " +
		"Links to directories and .git are not entered.",
	Schema: `{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":1000},` +
		`"path":{"type":"string","maxLength":4096,"description":"directory in which to look; the workspace when absent"}},` +
		`"required":["pattern"],"additionalProperties":false}`,
	ReplaySafe: true, Sequential: true,
}

var grepSpec = ports.ToolSpec{
	Name: "grep",
	Description: "Finds lines of text files by a regular expression (RE2), as path:line:text. Binary files, very large ones, links to " +
		"directories and .git are passed over.",
	Schema: `{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":1000,"description":"an RE2 regular expression"},` +
		`"path":{"type":"string","maxLength":4096,"description":"file or directory in which to look; the workspace when absent"},` +
		`"include":{"type":"string","maxLength":1000,"description":"only files that match, such as *.go or src/**/*.ts"},` +
		`"ignoreCase":{"type":"boolean"}},"required":["pattern"],"additionalProperties":false}`,
	ReplaySafe: true, Sequential: true,
}

const (
	maxFound    = 1000    // files of one glob
	maxMatches  = 200     // lines of one grep
	maxGrepLine = 250     // bytes of a line that are shown
	maxGrepFile = 4 << 20 // bytes of a file that is searched
	maxVisited  = 200_000 // files and directories of one walk
	maxDepth    = 100
	maxWays     = 1000 // patterns that one with braces stands for; each of them may have to be tried
)

var (
	errEnough  = errors.New("enough was found")
	errTooMany = fmt.Errorf("stopped after %d files; look in a smaller directory", maxVisited)
)

// walk calls visit for every file below dir, sorted within each directory, until visit fails. What cannot be read is
// passed over.
func (d directory) walk(ctx context.Context, dir string, visit func(name string, e fs.DirEntry) error) error {
	left := maxVisited
	return d.descend(ctx, dir, 0, &left, visit)
}

func (d directory) descend(ctx context.Context, dir string, depth int, left *int, visit func(string, fs.DirEntry) error) error {
	entries, err := d.list(dir, maxEntries)
	if err != nil && depth == 0 {
		return err
	}
	sortEntries(entries)
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if *left--; *left < 0 {
			return errTooMany
		}
		name := path.Join(dir, e.Name())
		switch {
		case !e.IsDir():
			err = visit(name, e)
		case e.Name() != ".git" && depth < maxDepth:
			err = d.descend(ctx, name, depth+1, left, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func glob(ctx context.Context, dir directory, args toolset.Arguments) (string, error) {
	base, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	pattern, err := globPattern(args.Text("pattern"))
	if err != nil {
		return "", err
	}
	var found []string
	err = dir.walk(ctx, base, func(name string, _ fs.DirEntry) error {
		if doublestar.MatchUnvalidated(pattern, below(base, name)) {
			if len(found) == maxFound {
				return errEnough
			}
			found = append(found, printable(name))
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		found = append(found, fmt.Sprintf("[cut: the first %d files]", maxFound))
	case err != nil:
		return "", err
	case len(found) == 0:
		return "[no file matches]", nil
	}
	return strings.Join(found, "\n"), nil
}

func globPattern(pattern string) (string, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if strings.HasPrefix(pattern, "/") {
		return "", fmt.Errorf("the pattern %q is absolute: patterns are relative to the workspace", pattern)
	}
	if !doublestar.ValidatePattern(pattern) {
		return "", fmt.Errorf("the pattern %q is malformed", pattern)
	}
	ways := 1
	for _, group := range strings.Split(pattern, "{")[1:] {
		if ways *= strings.Count(group, ",") + 1; ways > maxWays {
			return "", fmt.Errorf("the braces of the pattern %q stand for more than %d patterns", pattern, maxWays)
		}
	}
	return pattern, nil
}

// below returns name relative to the directory base that it lies in.
func below(base, name string) string {
	if base == "." {
		return name
	}
	return strings.TrimPrefix(name, base+"/")
}

// search is one grep.
type search struct {
	dir     directory
	re      *regexp.Regexp
	include string
	out     strings.Builder
	matches int
	large   int // files that were too large
}

func grep(ctx context.Context, dir directory, args toolset.Arguments) (string, error) {
	s, err := newSearch(dir, args)
	if err != nil {
		return "", err
	}
	base, err := dir.local(args.Text("path"))
	if err != nil {
		return "", err
	}
	f, info, err := dir.open(base)
	if err != nil {
		return "", err
	}
	_ = f.Close()
	if info.IsDir() {
		err = dir.walk(ctx, base, func(name string, _ fs.DirEntry) error { return s.visit(base, name) })
	} else {
		err = s.file(base)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return "", err
	}
	return s.result(errors.Is(err, errEnough)), nil
}

func newSearch(dir directory, args toolset.Arguments) (*search, error) {
	expression := args.Text("pattern")
	if args.Flag("ignoreCase") {
		expression = "(?i)" + expression
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no RE2 regular expression: %w", err)
	}
	include, err := globPattern(args.Text("include"))
	if err != nil {
		return nil, err
	}
	return &search{dir: dir, re: re, include: include}, nil
}

func (s *search) result(cut bool) string {
	if s.matches == 0 {
		s.out.WriteString("[no line matches]\n")
	}
	if cut {
		fmt.Fprintf(&s.out, "[cut: the first %d lines that match]\n", maxMatches)
	}
	if s.large > 0 {
		fmt.Fprintf(&s.out, "[%d files of more than %d bytes were passed over]\n", s.large, maxGrepFile)
	}
	return s.out.String()
}

// visit searches a file that the include pattern wants: one without a slash is held against the file's own name.
func (s *search) visit(base, name string) error {
	subject := below(base, name)
	if !strings.Contains(s.include, "/") {
		subject = path.Base(name)
	}
	if s.include != "" && !doublestar.MatchUnvalidated(s.include, subject) {
		return nil
	}
	return s.file(name)
}

// file searches one file; what cannot be read is passed over.
func (s *search) file(name string) error {
	f, info, err := s.dir.open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if info.Mode().IsRegular() && info.Size() > maxGrepFile {
		s.large++
	}
	if textual(name, f, info, maxGrepFile) != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxGrepFile))
	if err != nil {
		return nil
	}
	return s.lines(name, data)
}

func (s *search) lines(name string, data []byte) error {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if !s.re.Match(line) {
			continue
		}
		if s.matches++; s.matches > maxMatches {
			return errEnough
		}
		fmt.Fprintf(&s.out, "%s:%d:%s\n", printable(name), number, shown(string(line), maxGrepLine))
	}
	return nil
}
