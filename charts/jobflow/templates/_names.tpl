{{- define "jobflow.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 38 characters, so that names with a suffix have at most 63. */}}
{{- define "jobflow.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 38 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 38 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 38 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "jobflow.selectorLabels" -}}
app.kubernetes.io/name: {{ include "jobflow.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "jobflow.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "jobflow.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: jobflow
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The kind of the rights: Role if namespace is set, otherwise ClusterRole. */}}
{{- define "jobflow.roleKind" -}}
{{- if .Values.namespace }}Role{{ else }}ClusterRole{{ end }}
{{- end -}}

{{- define "jobflow.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "jobflow.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The Role or ClusterRole with the rights for flows, and its binding. A release whose own namespace
is the value of namespace has a second Role there, for its Lease and Secret. */}}
{{- define "jobflow.flowsRole" -}}
{{ include "jobflow.fullname" . }}{{ if .Values.namespace }}-flows{{ end }}
{{- end -}}

{{- define "jobflow.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* The plurals of all kinds of JobFlow, each followed by the argument, such as "/status". */}}
{{- define "jobflow.kinds" -}}
[jobflows{{ . }}, jobtemplates{{ . }}, cronjobflows{{ . }}]
{{- end -}}

{{- define "jobflow.webhookService" -}}
{{ include "jobflow.fullname" . }}-webhook
{{- end -}}

{{/* The name or address that the API server checks the certificate against. */}}
{{- define "jobflow.webhookHost" -}}
{{- if .Values.webhook.url -}}
{{ (urlParse .Values.webhook.url).hostname }}
{{- else -}}
{{ include "jobflow.webhookService" . }}.{{ .Release.Namespace }}.svc
{{- end -}}
{{- end -}}

{{- define "jobflow.certificateSecret" -}}
{{- default (printf "%s-webhook-certificate" (include "jobflow.fullname" .)) .Values.certificates.secretName -}}
{{- end -}}

{{/* Placement of all pods of the release, the pod of the CRD hook included. */}}
{{- define "jobflow.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Seconds of a duration such as 1h30m. */}}
{{- define "jobflow.seconds" -}}
{{- $seconds := 0 -}}
{{- range $unit, $size := dict "h" 3600 "m" 60 "s" 1 -}}
{{- range regexFindAll (printf "[0-9]+%s" $unit) $ -1 -}}
{{- $seconds = add $seconds (mul $size (atoi (trimSuffix $unit .))) -}}
{{- end -}}
{{- end -}}
{{ $seconds }}
{{- end -}}

{{/* Refuse values that `jobflow serve` or the API server refuses and that a schema cannot compare. */}}
{{- define "jobflow.check" -}}
{{- $name := include "jobflow.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "the objects of this release would be named %q, and a Service needs a DNS-1035 label: letters, digits and '-', a letter first; set fullnameOverride" $name) -}}
{{- end -}}
{{- if and .Values.webhook.enabled (eq (int .Values.webhook.port) (int .Values.http.port)) -}}
{{- fail (printf "webhook.port and http.port are both %d; a replica listens on both, so choose two ports" (int .Values.http.port)) -}}
{{- end -}}
{{- $lease := int64 (include "jobflow.seconds" .Values.lease.duration) -}}
{{- $renew := int64 (include "jobflow.seconds" .Values.lease.renewDeadline) -}}
{{- $retry := int64 (include "jobflow.seconds" .Values.lease.retryPeriod) -}}
{{- if not (and (lt $retry $renew) (lt $renew $lease)) -}}
{{- fail (printf "lease.retryPeriod (%s) must be shorter than lease.renewDeadline (%s), and that shorter than lease.duration (%s)" .Values.lease.retryPeriod .Values.lease.renewDeadline .Values.lease.duration) -}}
{{- end -}}
{{- $serving := int64 (include "jobflow.seconds" .Values.certificates.duration) -}}
{{- $authority := int64 (include "jobflow.seconds" .Values.certificates.caDuration) -}}
{{- if lt $serving 10 -}}
{{- fail (printf "certificates.duration is %s; at least 10s is needed to tell the API server of the next certificate" .Values.certificates.duration) -}}
{{- end -}}
{{- if lt $authority (mul 2 $serving) -}}
{{- fail (printf "certificates.caDuration (%s) must be at least twice certificates.duration (%s)" .Values.certificates.caDuration .Values.certificates.duration) -}}
{{- end -}}
{{- $delay := int64 (include "jobflow.seconds" .Values.shutdownDelay) -}}
{{- if gt (add $delay 10) (int64 .Values.terminationGracePeriodSeconds) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d; it must be at least 10 more than shutdownDelay (%s)" (int .Values.terminationGracePeriodSeconds) .Values.shutdownDelay) -}}
{{- end -}}
{{- end -}}

{{/* The security context of all containers, without any rights on the node. */}}
{{- define "jobflow.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "jobflow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
