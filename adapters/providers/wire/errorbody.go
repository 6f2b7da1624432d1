package wire

import (
	"bytes"
	"strings"

	"github.com/keel-agent/keel/ports"
)

// ReadFault looks for an error in the JSON of a body or of a chunk: {"error":…} with an object or a text, the same in
// an array, or an object that calls itself an error. ok is false when there is none; null is none.
func ReadFault(body []byte) (f Fault, ok bool) {
	raw := Raw(bytes.TrimSpace(body))
	if list := Array(raw); len(list) > 0 {
		raw = list[0]
	}
	return objectFault(Object(raw))
}

func objectFault(o map[string]Raw) (Fault, bool) {
	for _, name := range []string{"error", "errors"} {
		if raw := o[name]; IsError(raw) {
			return ErrorValue(raw), true
		}
	}
	if CallsItselfError(o["object"]) || CallsItselfError(o["type"]) {
		return members(o), true
	}
	return Fault{}, false
}

// errorEvent reads the data of an event that is called an error.
func errorEvent(data string) Fault {
	if f, ok := ReadFault([]byte(data)); ok {
		return f
	}
	if raw := Raw(data); raw.IsValid() {
		return ErrorValue(raw)
	}
	return Fault{Message: data}
}

// EventFault returns the fault of an event, or of a whole answer, that is none: the one that its data tell, else that they are
// not what the wire says, for a reason if there is one.
func EventFault(data []byte, why error) *ports.ProviderError {
	if f, ok := ReadFault(data); ok {
		return f.Error()
	}
	if why != nil {
		return Malformed("the answer is not of its wire: " + why.Error())
	}
	return Malformed("the answer is not of its wire")
}

// IsError reports whether the value of an error member tells one: null, false and the empty text do not.
func IsError(raw Raw) bool {
	return !IsNull(raw) && string(raw) != "false" && string(raw) != `""`
}

// CallsItselfError reports whether raw, the object or type member of an object, names an error.
func CallsItselfError(raw Raw) bool {
	return len(raw) > 0 && strings.Contains(strings.ToLower(String(raw)), "error")
}

// ErrorValue reads the value of an error member: an object, a text, or a list of either.
func ErrorValue(raw Raw) Fault {
	if list := Array(raw); len(list) > 0 {
		raw = list[0]
	}
	if o := Object(raw); o != nil {
		return members(o)
	}
	return Fault{Message: Label(raw)}
}

func members(o map[string]Raw) Fault {
	f := Fault{Code: Label(o["code"]), Type: String(o["type"]), Message: String(o["message"])}
	if f.Type == "" {
		f.Type = String(o["status"])
	}
	f.addDetails(o["details"])
	if inner := Object(o["error"]); inner != nil && f.Message == "" {
		return members(inner)
	}
	if f.Message == "" {
		f.Message = String(o["detail"])
	}
	// Routers put the answer of the backend behind them here.
	if upstream := String(Object(o["metadata"])["raw"]); upstream != "" && upstream != f.Message {
		f.Message = strings.TrimPrefix(f.Message+": "+upstream, ": ")
	}
	return f
}

// BodyFault returns the fault of an answer with an error status, whatever its body is.
func BodyFault(status int, body []byte) Fault {
	f, ok := ReadFault(body)
	if !ok {
		f = looseFault(body)
	}
	f.Status = status
	return f
}

// looseFault reads bodies that are no errors by their shape: a bare message, or text.
func looseFault(body []byte) Fault {
	body = bytes.TrimSpace(body)
	if o := Object(Raw(body)); o != nil {
		f := members(o)
		if f.Message == "" && !IsNull(o["detail"]) {
			f.Message = string(o["detail"])
		}
		if f.Message == "" {
			f.Message = string(body)
		}
		return f
	}
	if bytes.HasPrefix(body, []byte("<")) { // a page for people; its status says enough
		return Fault{}
	}
	return Fault{Message: string(body)}
}
