package providers_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// How what requests tell is compared: without regard to what differs from wire to wire and means nothing.

// speeches returns what one voice says in a row as one text each, without white space: wires join texts in ways of their
// own. Calls are known by their numbers, since each wire gives them other ids.
func speeches(list []wiretest.Told, lean bool) []string {
	var all []string
	numbers := map[string]int{}
	last := ""
	for _, t := range list {
		if t.Type == domain.CallBlock {
			numbers[t.Call] = len(numbers) + 1
		}
		voice := string(t.Role) + ": "
		if t.Role == domain.RoleTool {
			voice = fmt.Sprintf("result of call %d, error %t: ", numbers[t.Call], t.IsError)
		}
		said := speech(t, numbers[t.Call])
		switch {
		case said == "":
		case voice == last:
			all[len(all)-1] += said
		default:
			all, last = append(all, voice+said), voice
		}
	}
	for i := range all {
		if all[i] = noted.ReplaceAllString(all[i], noImageToken); lean && !strings.HasPrefix(all[i], "assistant") {
			all[i] = long.ReplaceAllString(anyImage.ReplaceAllString(all[i], noImageToken), "…")
		}
	}
	return all
}

const noImageToken = "[image?]"

var (
	noted    = regexp.MustCompile(`\(animage[^)]*\)`)
	anyImage = regexp.MustCompile(`\[image .*?\]`)
	long     = regexp.MustCompile(`x{100,}(\(therestoftheoutputwasleftout\))?`)
)

func speech(t wiretest.Told, number int) string {
	switch t.Type {
	case domain.ImageBlock:
		return fmt.Sprintf("[image %x]", sha256.Sum256([]byte(t.Text)))
	case domain.ThinkingBlock:
		return "<" + squeeze(t.Text) + ">"
	case domain.CallBlock:
		return fmt.Sprintf("[call %d %s %s]", number, plain(t.Name), arguments(t.Text))
	}
	return squeeze(t.Text)
}

// squeeze leaves out what is not seen. No wire takes U+0000.
func squeeze(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), ""), "\x00", "\uFFFD")
}

// plain returns the letters that a name begins with: those stay whatever a wire makes of it.
func plain(name string) string {
	end := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) || r > unicode.MaxASCII })
	if end < 0 {
		end = len(name)
	}
	return name[:min(end, 20)]
}

// arguments returns the values of arguments as they are spelled.
func arguments(raw string) string {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return squeeze(fmt.Sprint(v))
}
