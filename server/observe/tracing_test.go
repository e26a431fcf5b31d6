package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server"
)

func record(t *testing.T) (*Tracing, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracing := newTracing(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() {
		if err := tracing.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tracing, spans
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestSpans(t *testing.T) {
	tracing, spans := record(t)
	run(t, tracing.Observer(), func(_ *server.Server, client *rpc.Peer) {
		if err := call(t, client, "test/work"); err != nil {
			t.Fatal(err)
		}
		if err := call(t, client, "test/fail"); err == nil {
			t.Fatal("no error")
		}
	})
	ended := spans.Ended()
	if len(ended) != 3 { // initialize too
		t.Fatalf("%d spans", len(ended))
	}
	work, fail := ended[1], ended[2]
	if work.Name() != "test/work" || work.SpanKind() != trace.SpanKindServer || work.Status().Code != codes.Unset {
		t.Errorf("span %s, kind %v, status %v", work.Name(), work.SpanKind(), work.Status())
	}
	if a := attributes(work); a["rpc.method"] != "test/work" || a["rpc.system"] != "jsonrpc" || len(a) != 2 {
		t.Errorf("attributes %v", a)
	}
	if a := attributes(fail); fail.Status().Code != codes.Error || a["rpc.jsonrpc.error_code"] != "-32004" || fail.Status().Description != "" {
		t.Errorf("status %v, attributes %v", fail.Status(), a)
	}
}

func TestSpanContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracing, spans := record(t)
	for _, tc := range []struct{ name, traceparent, wantTrace, wantParent string }{
		{"part of the client's trace", parent, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"},
		{"a trace of its own", "", "", "0000000000000000"},
		{"a broken context is none", "00-zz", "", "0000000000000000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, done := tracing.request(t.Context(), "m", wire.TraceContext{Traceparent: tc.traceparent, Tracestate: "k=v"})
			if !trace.SpanContextFromContext(ctx).IsValid() {
				t.Error("the request's context has no span")
			}
			done(nil)
			ended := spans.Ended()
			span := ended[len(ended)-1]
			if tc.wantTrace != "" && span.SpanContext().TraceID().String() != tc.wantTrace {
				t.Errorf("trace %v", span.SpanContext().TraceID())
			}
			if span.Parent().SpanID().String() != tc.wantParent {
				t.Errorf("parent %v", span.Parent().SpanID())
			}
		})
	}
}

// Spans go where the standard environment says, with the name it gives.
func TestExport(t *testing.T) {
	type arrival struct{ path, body string }
	arrived := make(chan arrival, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- arrival{r.URL.Path, string(body)}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "my-executor")
	tracing, err := NewTracing(t.Context(), "1.2.3", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, done := tracing.request(t.Context(), protocol.MethodFsReadFile, wire.TraceContext{})
	done(errors.New("no such file: /secret/name"))
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-arrived
	if got.path != "/v1/traces" {
		t.Errorf("path %s", got.path)
	}
	for _, want := range []string{"my-executor", "1.2.3", "fs/readFile"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %q in %q", want, got.body)
		}
	}
	if strings.Contains(got.body, "secret") {
		t.Errorf("an error's text was exported: %q", got.body)
	}
}
