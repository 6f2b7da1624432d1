package wiretest

import (
	"regexp"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// Told is one thing that a request tells a model, instructions aside, whatever the wire.
type Told struct {
	Role domain.Role
	Type domain.BlockType
	Text string // of a call its arguments, of an image its data

	Call    string // of a call its id, of what a tool printed that of its call
	Name    string // of a call
	IsError bool   // of what a tool printed
}

// ImageData returns the data of the image in url, "" when there is none.
func ImageData(url string) string {
	if m := dataURL.FindStringSubmatch(url); m != nil {
		return m[2]
	}
	return ""
}

// How a wire that takes no images in results tells of one, and where it shows it: behind the results, in the user's voice.
const shownBelow = "(an image, shown below)"

var caption = regexp.MustCompile(`^Image from a result of .*:$`)

// ImagesInResults returns list with images back in the results that point to them. What points nowhere is an image without
// data; what nothing points to stays where it is.
func ImagesInResults(list []Told) []Told {
	var out []Told
	var missing []int
	for i := 0; i < len(list); i++ {
		t := list[i]
		switch {
		case t.Role == domain.RoleTool && t.Type == domain.TextBlock:
			for j, text := range strings.Split(t.Text, shownBelow) {
				if j > 0 {
					missing = append(missing, len(out))
					out = append(out, Told{Role: t.Role, Type: domain.ImageBlock, Call: t.Call, IsError: t.IsError})
				}
				t.Text = text
				out = append(out, t)
			}
		case len(missing) > 0 && t.Role == domain.RoleUser && caption.MatchString(t.Text) && i+1 < len(list):
			i++
			out[missing[0]].Text, missing = list[i].Text, missing[1:]
		default:
			out = append(out, t)
		}
	}
	return out
}
