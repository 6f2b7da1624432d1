package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// bug is one planted fault and the test that must find it.
type bug struct {
	name  string
	why   string
	pkg   string
	test  string // a regular expression for go test -run
	says  string // what the failing assertion prints
	patch string // path of the patch file
	files []string
}

// load reads the bugs of a directory whose names match, by name.
func load(dir string, match *regexp.Regexp) ([]bug, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var bugs []bug
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !match.MatchString(name) {
			continue
		}
		b, err := read(name, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		bugs = append(bugs, b)
	}
	if len(bugs) == 0 {
		return nil, errors.New("no bug to plant")
	}
	return bugs, nil
}

func read(name, path string) (bug, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return bug{}, err
	}
	b := bug{name: name, patch: path}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "Why:":
			b.why = value
		case "Test:":
			b.pkg, b.test, _ = strings.Cut(value, " ")
		case "Says:":
			b.says = value
		case "+++":
			b.files = append(b.files, strings.TrimPrefix(value, "b/"))
		}
	}
	if b.why == "" || b.pkg == "" || b.test == "" || b.says == "" || len(b.files) == 0 {
		return bug{}, errors.New("wants Why, Test, Says and a patch")
	}
	return b, nil
}
