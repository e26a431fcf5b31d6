package registry

import (
	"fmt"
	"log/slog"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// SecurityProfile is the only one there is.
const SecurityProfile = "noise_hybrid_ik_v1"

// Operations, the last part of a path.
const (
	OpRegister = "register"
	OpConnect  = "connect"
	OpValidate = "validate"
)

// PathPrefix stands between a base URL and the environment id.
const PathPrefix = "/cloud/environment/"

// Headers of requests.
const (
	// HeaderStreamID tells validate which stream the handshake is for.
	HeaderStreamID = "X-Codex-Noise-Stream-Id"
	// HeaderProfiles tells register which profiles besides codex the executor has,
	// separated by commas. A header, since a foreign registry may refuse unknown members.
	HeaderProfiles = "Wsd-Relay-Profiles"
	// HeaderInstance tells register which process of an executor asks, by 1 to 64 random
	// characters of A-Z a-z 0-9 _ and -, and that it can answer a challenge.
	HeaderInstance = "Wsd-Relay-Instance"
	// HeaderPrevious tells register with which registration the process was connected last.
	HeaderPrevious = "Wsd-Relay-Previous"
	// HeaderAccountID goes with the token of a ChatGPT login.
	HeaderAccountID = "ChatGPT-Account-ID"
)

// A RegisterRequest publishes an executor's key.
type RegisterRequest struct {
	SecurityProfile   string          `json:"security_profile"`
	ExecutorPublicKey *seal.PublicKey `json:"executor_public_key"`
}

// A RegisterResponse says where the executor waits for harnesses.
type RegisterResponse struct {
	EnvironmentID   string `json:"environment_id"`
	URL             string `json:"url"`
	SecurityProfile string `json:"security_profile"`
	// ExecutorRegistrationID goes into the prologue of every handshake. Never empty.
	ExecutorRegistrationID string `json:"executor_registration_id"`
	// Challenge is what the executor answers as it connects to URL, to prove that it holds
	// its keys: see Prove. Only our registry sends it, to executors that have an instance.
	Challenge []byte `json:"wsd_challenge,omitempty"`
	// Elsewhere is set by Client: the registry is not on this machine, and URL must not lead
	// here. What its name resolves to is to be checked with CheckAddress.
	Elsewhere bool `json:"-"`
}

// A ConnectRequest asks for a way to an executor.
type ConnectRequest struct {
	HarnessPublicKey *seal.PublicKey `json:"harness_public_key"`
}

// A ConnectResponse is all that a harness needs. Every member but the last is required.
type ConnectResponse struct {
	EnvironmentID          string          `json:"environment_id"`
	URL                    string          `json:"url"`
	SecurityProfile        string          `json:"security_profile"`
	ExecutorRegistrationID string          `json:"executor_registration_id"`
	ExecutorPublicKey      *seal.PublicKey `json:"executor_public_key"`
	// HarnessKeyAuthorization is sent inside message 1: once, to this executor, by the
	// harness with this key.
	HarnessKeyAuthorization string `json:"harness_key_authorization"`
	// RelayProfiles are those that the executor has announced. Only our registry says
	// so; without it there is the codex profile alone.
	RelayProfiles []frame.Profile `json:"relay_profiles,omitempty"`
	// Elsewhere is as in RegisterResponse.
	Elsewhere bool `json:"-"`
}

// A ValidateRequest asks about what came in message 1.
type ValidateRequest struct {
	ExecutorRegistrationID  string          `json:"executor_registration_id"`
	HarnessPublicKey        *seal.PublicKey `json:"harness_public_key"`
	HarnessKeyAuthorization string          `json:"harness_key_authorization"`
}

// A ValidateResponse answers it. The member must be there.
type ValidateResponse struct {
	Valid bool `json:"valid"`
}

// An ErrorBody is the body of an answer that is an error. Where both members are
// present, Error counts. Ours is written as {"error": ...}.
type ErrorBody struct {
	Error  *ErrorDetail `json:"error,omitempty"`
	Detail *ErrorDetail `json:"detail,omitempty"`
}

// An ErrorDetail says what is wrong: Code to programs, Message to people.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Codes that the peers know.
const (
	// CodeRegistrationConflict, with 503: the registry cannot decide now. An executor
	// asks again for ever.
	CodeRegistrationConflict = "registration_conflict"
	// CodeAuthUnavailable, with 502: likewise.
	CodeAuthUnavailable = "authentication_service_unavailable"
	// CodeOffline, with 409: no executor is attached. A harness asks again for a while.
	CodeOffline = "environment_offline"
)

// CodeReplaced, with 409: another executor has proved that it has the same keys, and has
// registered later. Wsd's relay says so, and an executor stops.
const CodeReplaced = "executor_replaced"

// CodeInUse, with 409: another executor, with other keys, has the environment. Wsd's relay
// says so.
const CodeInUse = "environment_in_use"

// CodeQuota, with 429: the token has as much in use as it may. Wsd's relay says so.
const CodeQuota = "quota_exceeded"

// LogValue implements slog.LogValuer without the URL.
func (r RegisterResponse) LogValue() slog.Value {
	return slog.GroupValue(slog.String("env", r.EnvironmentID), slog.String("registration", r.ExecutorRegistrationID))
}

// Format implements fmt.Formatter without the URL.
func (r RegisterResponse) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "RegisterResponse{%s %s}", r.EnvironmentID, r.ExecutorRegistrationID)
}

// LogValue implements slog.LogValuer without URL and authorization.
func (r ConnectResponse) LogValue() slog.Value {
	return slog.GroupValue(slog.String("env", r.EnvironmentID), slog.String("registration", r.ExecutorRegistrationID))
}

// Format implements fmt.Formatter without URL and authorization.
func (r ConnectResponse) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "ConnectResponse{%s %s}", r.EnvironmentID, r.ExecutorRegistrationID)
}

// LogValue implements slog.LogValuer without the authorization.
func (r ValidateRequest) LogValue() slog.Value {
	return slog.GroupValue(slog.String("registration", r.ExecutorRegistrationID))
}

// Format implements fmt.Formatter without the authorization.
func (r ValidateRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "ValidateRequest{%s}", r.ExecutorRegistrationID)
}
