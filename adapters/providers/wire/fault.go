package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keel-agent/keel/ports"
)

// Fault is what a backend said about a failure, in an error body, in the middle of a stream, or in its status alone.
type Fault struct {
	Status     int    // HTTP status of the answer; 0 or 200 when the fault came inside a stream
	Code       string // the backend's code; a number in it counts as the status of a fault inside a stream
	Type       string // the backend's type of error
	Message    string
	RetryAfter time.Duration
	Spent      bool // a quota is used up that does not come back soon
}

// clientClosed is the status of a request that was cancelled, and not by us.
const clientClosed = 499

// maxMessage bounds a backend's message in bytes.
const maxMessage = 2 << 10

// Error returns the classified fault. Status and code decide; the wording is asked only where they leave the choice
// between an invalid request and one that is too long. What nothing tells is retryable: a budget bounds the retries.
func (f Fault) Error() *ports.ProviderError {
	e := &ports.ProviderError{
		Class: f.class(), Status: f.status(), Code: f.label(), Message: clip(Clean(f.Message), maxMessage), RetryAfter: f.RetryAfter,
	}
	if e.Message == "" {
		e.Message = f.defaultMessage()
	}
	return e
}

func (f Fault) label() string {
	switch {
	case f.Code != "" && numeric(f.Code) == 0:
		return f.Code
	case f.Type != "":
		return f.Type
	}
	return f.Code
}

func (f Fault) defaultMessage() string {
	if s := http.StatusText(f.status()); s != "" {
		return s
	}
	if f.label() != "" {
		return f.label()
	}
	return "the backend reported an error and did not say which"
}

// status returns the HTTP status, or what stands for it in a fault that came inside a stream.
func (f Fault) status() int {
	if f.Status >= 400 {
		return f.Status
	}
	return numeric(f.Code)
}

// numeric returns code as an HTTP error status, 0 if it is none.
func numeric(code string) int {
	if n, err := strconv.Atoi(code); err == nil && 400 <= n && n < 600 {
		return n
	}
	return 0
}

func (f Fault) class() ports.FaultClass {
	named := kindUnknown
	for _, name := range []string{f.Code, f.Type} {
		if k, ok := kinds[strings.ToLower(name)]; ok && named == kindUnknown {
			named = k
		}
	}
	status, words := f.status(), strings.ToLower(f.Message)
	switch {
	case named == kindQuota || f.Spent || status == http.StatusPaymentRequired || containsAny(words, quotaWords):
		return ports.Fatal
	case status == http.StatusTooManyRequests:
		return ports.Retryable
	case named == kindOverflow:
		return ports.Overflow
	case status == http.StatusRequestEntityTooLarge || named == kindTooLarge || strings.Contains(words, "request payload size exceeds"):
		return ports.TooLarge
	case named == kindRate:
		return ports.Retryable
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ports.Fatal
	case (status < 400 && named != kindCredentials || status == 400 || status == 404 || status == 422 || status >= 500) && overflows(words):
		return ports.Overflow
	case named == kindImage || (status < 400 && named != kindCredentials || slices.Contains(badRequests, status)) && aboutImage(words):
		return ports.BadImage
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooEarly || status == clientClosed || status >= 500:
		return ports.Retryable
	case status >= 400 || named == kindCredentials || named == kindInvalid:
		return ports.Fatal
	}
	return ports.Retryable
}

// kind is what a backend's code or type of error stands for.
type kind int

const (
	kindUnknown kind = iota
	kindRate
	kindQuota
	kindCredentials
	kindInvalid
	kindOverflow
	kindTooLarge
	kindImage
	kindBusy
)

// kinds holds the codes and types of the common backends, in lower case.
var kinds = map[string]kind{
	"rate_limit_exceeded": kindRate, "rate_limit_error": kindRate, "rate_limit_reached": kindRate, "too_many_requests": kindRate,
	"resource_exhausted": kindRate, "requests": kindRate, "tokens": kindRate, "rate_limit": kindRate,

	"insufficient_quota": kindQuota, "billing_hard_limit_reached": kindQuota, "billing_not_active": kindQuota,
	"billing_error": kindQuota, "insufficient_balance": kindQuota, "insufficient_credits": kindQuota, "account_deactivated": kindQuota,
	"payment_required": kindQuota, "billing_disabled": kindQuota,

	"invalid_api_key": kindCredentials, "authentication_error": kindCredentials, "permission_error": kindCredentials,
	"api_key_invalid": kindCredentials, "permission_denied": kindCredentials, "unauthenticated": kindCredentials, "unauthorized": kindCredentials,

	"invalid_request_error": kindInvalid, "bad_request_error": kindInvalid, "badrequesterror": kindInvalid, "invalid_argument": kindInvalid,
	"invalid_prompt": kindInvalid, "model_not_found": kindInvalid, "not_found_error": kindInvalid, "notfounderror": kindInvalid,
	"not_found": kindInvalid, "failed_precondition": kindInvalid, "out_of_range": kindInvalid, "unimplemented": kindInvalid,
	"unsupported_parameter": kindInvalid, "unsupported_value": kindInvalid, "content_policy_violation": kindInvalid,
	"invalid_encrypted_content": kindInvalid, "integer_below_min_value": kindInvalid, "string_above_max_length": kindInvalid,
	"invalid_image": kindImage, "invalid_image_format": kindImage, "invalid_base64_image": kindImage, "invalid_image_url": kindImage,
	"invalid_image_mode": kindImage, "image_parse_error": kindImage, "unsupported_image_media_type": kindImage,
	"image_too_large": kindImage, "image_too_small": kindImage, "image_file_too_large": kindImage, "empty_image_file": kindImage,
	"image_content_policy_violation": kindImage,

	"context_length_exceeded": kindOverflow, "exceed_context_size_error": kindOverflow, "context_window_exceeded": kindOverflow,
	"model_context_window_exceeded": kindOverflow, "context_length_exceeded_error": kindOverflow, "prompt_too_long": kindOverflow,

	"request_too_large": kindTooLarge, "payload_too_large": kindTooLarge,

	"server_error": kindBusy, "api_error": kindBusy, "overloaded_error": kindBusy, "overloaded": kindBusy, "internal_error": kindBusy,
	"internal": kindBusy, "deadline_exceeded": kindBusy, "aborted": kindBusy, "cancelled": kindBusy, "internal_server_error": kindBusy, "service_unavailable": kindBusy, "unavailable": kindBusy, "timeout_error": kindBusy,
}

// quotaWords are the wordings of an empty purse that come without a code of their own.
var quotaWords = []string{
	"insufficient_quota", "credit balance is too low", "insufficient credits", "insufficient balance", "billing hard limit",
	"credits are depleted", "spending cap",
}

// overflowWords are the wordings in which the common backends say that a context is too long.
var overflowWords = [][]string{
	{"maximum context length"}, {"context_length_exceeded"}, {"prompt is too long"}, {"input is too long"},
	{"input token count", "exceed"}, {"context window", "exceed"}, {"context size", "exceed"}, {"context length", "exceed"},
	{"context too large"}, {"context is too large"}, {"context length", "longer than"}, {"context length", "greater than"},
	{"reduce the length of the messages"}, {"reduce the length of the prompt"}, {"too many tokens"}, {"maximum prompt length"},
	{"token count", "exceeds the limit"}, {"maximum model length"}, {"exceeds", "max_model_len"}, {"max_new_tokens", "must be <="},
	{"prompt too long"}, {"exceed", "context limit"}, {"exceeded model token limit"}, {"too many input tokens"},
}

// badRequests are the statuses of a refusal that may be about an image.
var badRequests = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

// imageWords are the wordings in which the common backends refuse an image: one that they cannot read, one that is too large,
// one too many, or any at all.
var imageWords = [][]string{
	{"could not process image"}, {"unable to process input image"}, {"image exceeds"}, {"image dimensions exceed"},
	{"unsupported image"}, {"image is not valid"}, {"not represent a valid image"}, {"not appear to be a valid", "image"},
	{"invalid image"}, {"cannot identify image"}, {"failed to decode image"}, {"failed to load image"}, {"failed to process image"},
	{"invalid base64", "image"}, {"image", "media type", "does not"}, {"too many images"}, {"at most", "image(s)"}, {"image", "too large"},
	{"image input"}, {"image_url", "only supported by certain models"}, {"not a multimodal model"}, {"does not support image"},
}

func overflows(words string) bool  { return holdsAny(words, overflowWords) }
func aboutImage(words string) bool { return holdsAny(words, imageWords) }

// holdsAny reports whether words have all of any of the lists.
func holdsAny(words string, lists [][]string) bool {
	return slices.ContainsFunc(lists, func(all []string) bool {
		return !slices.ContainsFunc(all, func(w string) bool { return !strings.Contains(words, w) })
	})
}

func containsAny(words string, list []string) bool {
	for _, w := range list {
		if strings.Contains(words, w) {
			return true
		}
	}
	return false
}

// UnknownThinking returns the fault of a request for a level of thinking that no wire knows.
func UnknownThinking(level string) *ports.ProviderError {
	return &ports.ProviderError{
		Class: ports.Fatal, Code: "thinking_level",
		Message: "unknown level of thinking " + strconv.Quote(level) + ": want none, minimal, low, medium, high, xhigh or max",
	}
}

// clip cuts s to at most n bytes, at the border of a character, and marks the cut.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
