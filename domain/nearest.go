package domain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxNear is how many names a refusal lists.
const maxNear = 5

// Near returns "; did you mean …" with the names that are most like the unknown one; when none is like it, the first
// of all; and "" when there are no names.
func Near(unknown string, names []string) string { return hint(nearest(unknown, names), names) }

// hint says which names are like the unknown one, else which there are.
func hint(like, names []string) string {
	switch {
	case len(names) == 0:
		return "; there is none"
	case len(like) == 0:
		return "; there is " + listed(names)
	}
	return "; did you mean " + strings.Join(like, ", ") + "?"
}

// nearest returns the names that are like the unknown one, the nearest first.
func nearest(unknown string, names []string) []string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, name := range names {
		d := distance(strings.ToLower(unknown), strings.ToLower(name))
		if d <= max(2, len(unknown)/3) || strings.Contains(name, unknown) && unknown != "" {
			found = append(found, near{name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	var like []string
	for _, n := range found[:min(len(found), maxNear)] {
		like = append(like, n.name)
	}
	return like
}

// listed is the beginning of names, and how many more there are.
func listed(names []string) string {
	if len(names) <= 2*maxNear {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:2*maxNear], ", ") + " and " + strconv.Itoa(len(names)-2*maxNear) + " more"
}

// distance is how many bytes must be changed, added, left out, or exchanged with the next to make one of the other.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			same := 1
			if a[i] == b[j] {
				same = 0
			}
			row[j+1] = min(last[j]+same, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
