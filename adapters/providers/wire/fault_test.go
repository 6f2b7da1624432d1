package wire_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

func TestFaultsOfBodies(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		class  ports.FaultClass
		code   string
		text   string // part of the message
	}{
		{429, `{"error":{"message":"Rate limit reached for gpt: Limit 10000 tokens","type":"tokens","code":"rate_limit_exceeded"}}`, ports.Retryable, "rate_limit_exceeded", "Rate limit"},
		{429, `{"error":{"message":"too many tokens, maximum context length"}}`, ports.Retryable, "", "too many tokens"},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, ports.Fatal, "insufficient_quota", "quota"},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, ports.Fatal, "invalid_request_error", "credit"},
		{402, `{"error":{"message":"Insufficient credits","code":402}}`, ports.Fatal, "402", "credits"},
		{401, `{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}`, ports.Fatal, "invalid_api_key", "Incorrect"},
		{403, `{"error":"forbidden"}`, ports.Fatal, "", "forbidden"},
		{404, `{"error":{"message":"no such model","code":"model_not_found"}}`, ports.Fatal, "model_not_found", "no such"},
		{422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, ports.Fatal, "", "field required"},
		{422, `{"detail":"bad"}`, ports.Fatal, "", "bad"},
		{418, ``, ports.Fatal, "", "teapot"},
		{408, ``, ports.Retryable, "", "Timeout"},
		{409, `{}`, ports.Retryable, "", "{}"},
		{425, ``, ports.Retryable, "", "Early"},
		{500, `{"error":{"message":"boom","type":"server_error"}}`, ports.Retryable, "server_error", "boom"},
		{502, "<!DOCTYPE html><html>nginx</html>", ports.Retryable, "", "Bad Gateway"},
		{503, "upstream connect error", ports.Retryable, "", "upstream connect error"},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, ports.Retryable, "overloaded_error", "Overloaded"},

		// K33, point 2 and 3.
		{400, `{"error":{"message":"This model's maximum context length is 131072 tokens."}}`, ports.Overflow, "", ""},
		{400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum","type":"invalid_request_error"}}`, ports.Overflow, "invalid_request_error", ""},
		{400, `{"error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 32000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, ports.Overflow, "invalid_request_error", ""},
		{400, `{"error":{"message":"no","code":"context_length_exceeded"}}`, ports.Overflow, "context_length_exceeded", ""},
		{400, `[{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}]`, ports.Overflow, "INVALID_ARGUMENT", ""},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}`, ports.Overflow, "exceed_context_size_error", ""},
		{400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"maximum context length\"}"}}}`, ports.Overflow, "400", "Provider returned error: {"},
		{500, `{"error":{"message":"input is longer than the model's context length"}}`, ports.Overflow, "", ""},
		{400, `{"error":{"message":"input length and max_tokens exceed context limit: 190000 + 20000 > 200000","type":"invalid_request_error"}}`, ports.Overflow, "invalid_request_error", ""},
		{400, `{"error":{"message":"Your request exceeded model token limit: 131072","type":"invalid_request_error"}}`, ports.Overflow, "invalid_request_error", ""},
		{400, `{"message":"Too many input tokens. Max input tokens: 8192"}`, ports.Overflow, "", ""},
		{429, `{"error":{"message":"too many input tokens per minute"}}`, ports.Retryable, "", ""},
		{413, "<html>413 Request Entity Too Large</html>", ports.TooLarge, "", "Too Large"},
		{413, `{"error":{"type":"request_too_large","message":"x"}}`, ports.TooLarge, "request_too_large", ""},
		{401, `{"error":{"message":"maximum context length"}}`, ports.Fatal, "", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Could not process image"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.3: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"The image was specified using the image/png media type, but does not appear to be a valid png image"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Too many images and documents: 101 + 0 > 100"}}`, ports.BadImage, "invalid_request_error", ""},
		{400, `{"error":{"message":"You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].","type":"invalid_request_error","param":null,"code":"invalid_image_format"}}`, ports.BadImage, "invalid_image_format", ""},
		{400, `{"error":{"message":"The image data you provided does not represent a valid image. Please check your input.","type":"invalid_request_error","param":"input","code":"invalid_value"}}`, ports.BadImage, "invalid_value", ""},
		{400, `{"error":{"message":"no","type":"image_generation_user_error","code":"image_content_policy_violation"}}`, ports.BadImage, "image_content_policy_violation", ""},
		{400, `{"error":{"code":400,"message":"Unable to process input image. Please retry or report in the guide","status":"INVALID_ARGUMENT"}}`, ports.BadImage, "INVALID_ARGUMENT", ""},
		{400, `{"error":{"code":400,"message":"Provided image is not valid.","status":"INVALID_ARGUMENT"}}`, ports.BadImage, "INVALID_ARGUMENT", ""},
		{400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Provided image is not valid.\"}}"}}}`, ports.BadImage, "400", ""},
		{404, `{"error":{"message":"No endpoints found that support image input","code":404}}`, ports.BadImage, "404", ""},
		{400, `{"object":"error","message":"cannot identify image file <_io.BytesIO object at 0x7f>","type":"BadRequestError","code":400}`, ports.BadImage, "BadRequestError", ""},
		{400, `{"object":"error","message":"At most 2 image(s) may be provided in one request.","type":"BadRequestError","code":400}`, ports.BadImage, "BadRequestError", ""},
		{422, `{"detail":"Invalid image"}`, ports.BadImage, "", ""},
		{429, `{"error":{"message":"too many images per minute"}}`, ports.Retryable, "", ""},
		{500, `{"error":{"message":"Could not process image"}}`, ports.Retryable, "", ""},
		{401, `{"error":{"message":"unsupported image"}}`, ports.Fatal, "", ""},
		{413, `{"error":{"message":"image exceeds the limit"}}`, ports.TooLarge, "", ""},
		{400, `{"error":{"message":"the image tokens exceed the context window"}}`, ports.Overflow, "", ""},
		{400, `{"error":{"message":"max_tokens is too large: 9. This model supports at most 8 completion tokens"}}`, ports.Fatal, "", ""},
	} {
		got := wire.BodyFault(c.status, []byte(c.body)).Error()
		require.Equal(t, c.class, got.Class, "%d %s", c.status, c.body)
		require.Equal(t, c.code, got.Code, c.body)
		require.Equal(t, c.status, got.Status, c.body)
		require.Contains(t, got.Message, c.text, c.body)
		require.NotEmpty(t, got.Message, c.body)
	}
}

func TestFaultsInsideStreams(t *testing.T) {
	for body, want := range map[string]ports.FaultClass{
		`{"error":{"code":502,"message":"upstream at capacity"}}`:           ports.Retryable,
		`{"error":{"code":"429","message":"slow"}}`:                         ports.Retryable,
		`{"error":{"code":400,"message":"bad"}}`:                            ports.Fatal,
		`{"error":{"code":"401"}}`:                                          ports.Fatal,
		`{"error":{"code":413}}`:                                            ports.TooLarge,
		`{"error":{"type":"invalid_request_error"}}`:                        ports.Fatal,
		`{"error":{"type":"authentication_error"}}`:                         ports.Fatal,
		`{"error":{"type":"overloaded_error"}}`:                             ports.Retryable,
		`{"error":{"message":"context too large"}}`:                         ports.Overflow,
		`{"error":{"message":"Could not process image"}}`:                   ports.BadImage,
		`{"error":{"type":"authentication_error","message":"image input"}}`: ports.Fatal,
		`{"error":{"message":"who knows"}}`:                                 ports.Retryable,
		`{"error":{}}`:                                                      ports.Retryable,
		`{"error":["slow"]}`:                                                ports.Retryable,
		`{"error":true}`:                                                    ports.Retryable,
		`{"errors":[{"message":"bad","code":"invalid_prompt"}]}`:            ports.Fatal,
		`{"object":"error","message":"prompt is too long","type":"x"}`:      ports.Overflow,
		`{"type":"error","error":{"type":"rate_limit_error"},"choices":0}`:  ports.Retryable,
	} {
		f, ok := wire.ReadFault([]byte(body))
		require.True(t, ok, body)
		got := f.Error()
		require.Equal(t, want, got.Class, body)
		require.NotEmpty(t, got.Message, body)
	}
	for _, body := range []string{``, `null`, `{`, `[]`, `7`, `"error"`, `{"error":null}`, `{"error":false}`, `{"error":""}`, `{"object":"chat.completion"}`} {
		_, ok := wire.ReadFault([]byte(body))
		require.False(t, ok, body)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	got := wire.BodyFault(500, []byte("x"+strings.Repeat("é", 5000))).Error()
	require.LessOrEqual(t, len(got.Message), 2052)
	require.True(t, strings.HasSuffix(got.Message, "é…"))
	require.Equal(t, "a\uFFFDb\uFFFD", wire.BodyFault(500, []byte("a\x00b\xff")).Error().Message)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "5"}, 5 * time.Second},
		{map[string]string{"Retry-After": " 1.5 "}, 1500 * time.Millisecond},
		{map[string]string{"Retry-After": "-3"}, 0},
		{map[string]string{"Retry-After": "0"}, 0},
		{map[string]string{"Retry-After": "86400"}, 24 * time.Hour},
		{map[string]string{"Retry-After": "1e300"}, math.MaxInt64},
		{map[string]string{"Retry-After": "1e999"}, math.MaxInt64},
		{map[string]string{"Retry-After": "99999999999999999999"}, math.MaxInt64},
		{map[string]string{"Retry-After": "NaN"}, 0},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": "1m30s"}, 90 * time.Second},
		{map[string]string{"Retry-After": "-1m"}, 0},
		{map[string]string{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * time.Second},
		{map[string]string{"Retry-After": "Sunday, 01-Mar-26 12:00:30 GMT"}, 30 * time.Second},
		{map[string]string{"Retry-After": "Sun Mar  1 12:00:30 2026"}, 30 * time.Second},
		{map[string]string{"Retry-After": "2026-03-01T12:00:30Z"}, 30 * time.Second},
		{map[string]string{"Retry-After": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0},
		{map[string]string{"Retry-After": "Sun, 01 Mar 2026 11:00:30 GMT", "Date": "Sun, 01 Mar 2026 11:00:00 GMT"}, 30 * time.Second},
		{map[string]string{"Retry-After-Ms": "250", "Retry-After": "5"}, 250 * time.Millisecond},
		{map[string]string{"Retry-After-Ms": "-250"}, 0},
		{map[string]string{"Retry-After-Ms": "x", "Retry-After": "5"}, 5 * time.Second},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		require.Equal(t, c.want, wire.RetryAfter(h, now), "%v", c.header)
	}
}

func TestRedact(t *testing.T) {
	secrets := wire.Secrets{"", "1", "sk-secret"}
	err := secrets.Redact(&ports.ProviderError{Message: "1 key sk-secret", Code: "sk-secret", Err: errors.New("sk-secret"), Class: ports.Fatal})
	require.Equal(t, &ports.ProviderError{Message: "1 key [redacted]", Code: "[redacted]", Class: ports.Fatal}, err)
	other := errors.New("x")
	require.Equal(t, other, secrets.Redact(other))
	require.NoError(t, secrets.Redact(nil))
}

// A message is clipped before the key is looked for: what is left of the key at its end goes as well.
func TestRedactClippedMessages(t *testing.T) {
	secrets := wire.Secrets{"sk-secret"}
	for in, want := range map[string]string{
		"key sk-secre…": "key …", "key s…": "key …", "key sk-secret…": "key [redacted]…", "key x…": "key x…", "key sk-secre": "key sk-secre",
	} {
		require.Equal(t, &ports.ProviderError{Message: want}, secrets.Redact(&ports.ProviderError{Message: in}))
	}
}
