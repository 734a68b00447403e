{{- define "jobflow.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 38 characters, so that what is appended stays within 63. */}}
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
{{- end -}}

{{- define "jobflow.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "jobflow.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "jobflow.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
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

{{/* What every pod of ours may do to its node: nothing. */}}
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
