package domain

// EqualJSON reports whether a and b have the same value (protocol.md §3). Key order, white space, string escapes and
// the spelling of numbers do not matter. Numbers are compared exactly, as decimals, and never expanded: 1, 1.0 and
// 10e-1 are equal, 2^53 and 2^53+1 are not, -0 is 0. A lone surrogate escape equals U+FFFD. Array order counts, null
// is not absence, and Unicode is not normalised.
//
// Text that ParseValue refuses, for another reason than its size, equals nothing but itself.
func EqualJSON(a, b string) bool {
	if a == b {
		return true
	}
	x, err := appendStrict(nil, []byte(a))
	if err != nil {
		return false
	}
	y, err := appendStrict(nil, []byte(b))
	if err != nil {
		return false
	}
	return flatten(string(x)).equal(0, flatten(string(y)), 0)
}

// flatText is strict text with its values in a flat list, in order of their beginning: after an object or array come
// its children, and after a name its value.
type flatText struct {
	text  string
	spans []span
}

// span is one value or name: text[begin:end]. The span next to it, past its children, has index next.
type span struct{ begin, end, next int }

// flatten splits text that appendStrict returned.
func flatten(text string) flatText {
	var spans []span
	open := make([]int, 0, MaxDepth)
	for i := 0; i < len(text); {
		switch text[i] {
		case ',', ':':
			i++
		case '{', '[':
			open = append(open, len(spans))
			spans = append(spans, span{begin: i})
			i++
		case '}', ']':
			i++
			s := &spans[open[len(open)-1]]
			s.end, s.next = i, len(spans)
			open = open[:len(open)-1]
		default:
			end := endOfValue(text, i)
			spans = append(spans, span{i, end, len(spans) + 1})
			i = end
		}
	}
	return flatText{text, spans}
}

func (x flatText) raw(i int) string { return x.text[x.spans[i].begin:x.spans[i].end] }

// equal compares value i of x with value j of y.
func (x flatText) equal(i int, y flatText, j int) bool {
	a, b := x.raw(i), y.raw(j)
	if a == b {
		return true
	}
	kind := kindOf(a)
	if kind != kindOf(b) {
		return false
	}
	switch kind {
	case '0':
		return parseDecimal(a) == parseDecimal(b)
	case '[':
		return x.equalArrays(i, y, j)
	case '{':
		return x.equalObjects(i, y, j)
	}
	return false // strings have one spelling each, and literals too
}

func (x flatText) equalArrays(i int, y flatText, j int) bool {
	endI, endJ := x.spans[i].next, y.spans[j].next
	for i, j = i+1, j+1; i < endI && j < endJ; i, j = x.spans[i].next, y.spans[j].next {
		if !x.equal(i, y, j) {
			return false
		}
	}
	return i == endI && j == endJ
}

// equalObjects relies on names being unique: as many members on both sides, each of x found in y, are all members.
func (x flatText) equalObjects(i int, y flatText, j int) bool {
	endI, endJ := x.spans[i].next, y.spans[j].next
	for i, j = i+1, j+1; i < endI && j < endJ; i, j = x.spans[i+1].next, y.spans[j+1].next {
		if x.raw(i) != y.raw(j) {
			return x.equalUnordered(i, endI, y, j, endJ)
		}
		if !x.equal(i+1, y, j+1) {
			return false
		}
	}
	return i == endI && j == endJ
}

// equalUnordered compares the members from i to endI with those from j to endJ in any order.
func (x flatText) equalUnordered(i, endI int, y flatText, j, endJ int) bool {
	values := make(map[string]int)
	for ; j < endJ; j = y.spans[j+1].next {
		values[y.raw(j)] = j + 1
	}
	n := 0
	for ; i < endI; i = x.spans[i+1].next {
		v, ok := values[x.raw(i)]
		if !ok || !x.equal(i+1, y, v) {
			return false
		}
		n++
	}
	return n == len(values)
}
