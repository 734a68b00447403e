"""The fields of a pod template and of a volume claim, by type, as Kubernetes has them.

Written by tools/pod_types.py (`make manifests`) from kubernetes-asyncio 36.1.0. Do not edit it.
A paragraph is a type and its fields. A field is a name and a type: `[T]` for a list, `{T}` for a
map of T, or the words that the field takes.
"""

POD_TYPES = """\
AWSElasticBlockStoreVolumeSource: fsType text, partition integer, readOnly boolean, volumeID text
Affinity: nodeAffinity NodeAffinity, podAffinity PodAffinity, podAntiAffinity PodAntiAffinity
AppArmorProfile: localhostProfile text, type text
AzureDiskVolumeSource: cachingMode text, diskName text, diskURI text, fsType text, kind text,
  readOnly boolean
AzureFileVolumeSource: readOnly boolean, secretName text, shareName text
CSIVolumeSource: driver text, fsType text, nodePublishSecretRef LocalObjectReference, readOnly
  boolean, volumeAttributes {text}
Capabilities: add [text], drop [text]
CephFSVolumeSource: monitors [text], path text, readOnly boolean, secretFile text, secretRef
  LocalObjectReference, user text
CinderVolumeSource: fsType text, readOnly boolean, secretRef LocalObjectReference, volumeID text
ClusterTrustBundleProjection: labelSelector LabelSelector, name text, optional boolean, path text,
  signerName text
ConfigMapEnvSource: name text, optional boolean
ConfigMapKeySelector: key text, name text, optional boolean
ConfigMapProjection: items [KeyToPath], name text, optional boolean
ConfigMapVolumeSource: defaultMode integer, items [KeyToPath], name text, optional boolean
Container: args [text], command [text], env [EnvVar], envFrom [EnvFromSource], image text,
  imagePullPolicy Always Never IfNotPresent, lifecycle Lifecycle, livenessProbe Probe, name text,
  ports [ContainerPort], readinessProbe Probe, resizePolicy [ContainerResizePolicy], resources
  ResourceRequirements, restartPolicy Always OnFailure Never, restartPolicyRules
  [ContainerRestartRule], securityContext SecurityContext, startupProbe Probe, stdin boolean,
  stdinOnce boolean, terminationMessagePath text, terminationMessagePolicy File
  FallbackToLogsOnError, tty boolean, volumeDevices [VolumeDevice], volumeMounts [VolumeMount],
  workingDir text
ContainerPort: containerPort integer, hostIP text, hostPort integer, name text, protocol TCP UDP
  SCTP
ContainerResizePolicy: resourceName text, restartPolicy text
ContainerRestartRule: action text, exitCodes ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator text, values [integer]
DownwardAPIProjection: items [DownwardAPIVolumeFile]
DownwardAPIVolumeFile: fieldRef ObjectFieldSelector, mode integer, path text, resourceFieldRef
  ResourceFieldSelector
DownwardAPIVolumeSource: defaultMode integer, items [DownwardAPIVolumeFile]
EmptyDirVolumeSource: medium text, sizeLimit quantity
EnvFromSource: configMapRef ConfigMapEnvSource, prefix text, secretRef SecretEnvSource
EnvVar: name text, value text, valueFrom EnvVarSource
EnvVarSource: configMapKeyRef ConfigMapKeySelector, fieldRef ObjectFieldSelector, fileKeyRef
  FileKeySelector, resourceFieldRef ResourceFieldSelector, secretKeyRef SecretKeySelector
EphemeralContainer: args [text], command [text], env [EnvVar], envFrom [EnvFromSource], image text,
  imagePullPolicy text, lifecycle Lifecycle, livenessProbe Probe, name text, ports [ContainerPort],
  readinessProbe Probe, resizePolicy [ContainerResizePolicy], resources ResourceRequirements,
  restartPolicy text, restartPolicyRules [ContainerRestartRule], securityContext SecurityContext,
  startupProbe Probe, stdin boolean, stdinOnce boolean, targetContainerName text,
  terminationMessagePath text, terminationMessagePolicy text, tty boolean, volumeDevices
  [VolumeDevice], volumeMounts [VolumeMount], workingDir text
EphemeralVolumeSource: volumeClaimTemplate PersistentVolumeClaimTemplate
ExecAction: command [text]
FCVolumeSource: fsType text, lun integer, readOnly boolean, targetWWNs [text], wwids [text]
FileKeySelector: key text, optional boolean, path text, volumeName text
FlexVolumeSource: driver text, fsType text, options {text}, readOnly boolean, secretRef
  LocalObjectReference
FlockerVolumeSource: datasetName text, datasetUUID text
GCEPersistentDiskVolumeSource: fsType text, partition integer, pdName text, readOnly boolean
GRPCAction: port integer, service text
GitRepoVolumeSource: directory text, repository text, revision text
GlusterfsVolumeSource: endpoints text, path text, readOnly boolean
HTTPGetAction: host text, httpHeaders [HTTPHeader], path text, port integer-or-text, scheme HTTP
  HTTPS
HTTPHeader: name text, value text
HostAlias: hostnames [text], ip text
HostPathVolumeSource: path text, type text
ISCSIVolumeSource: chapAuthDiscovery boolean, chapAuthSession boolean, fsType text, initiatorName
  text, iqn text, iscsiInterface text, lun integer, portals [text], readOnly boolean, secretRef
  LocalObjectReference, targetPortal text
ImageVolumeSource: pullPolicy text, reference text
KeyToPath: key text, mode integer, path text
LabelSelector: matchExpressions [LabelSelectorRequirement], matchLabels {text}
LabelSelectorRequirement: key text, operator In NotIn Exists DoesNotExist, values [text]
Lifecycle: postStart LifecycleHandler, preStop LifecycleHandler, stopSignal text
LifecycleHandler: exec ExecAction, httpGet HTTPGetAction, sleep SleepAction, tcpSocket
  TCPSocketAction
LocalObjectReference: name text
NFSVolumeSource: path text, readOnly boolean, server text
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm],
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector
NodeSelector: nodeSelectorTerms [NodeSelectorTerm]
NodeSelectorRequirement: key text, operator In NotIn Exists DoesNotExist Gt Lt, values [text]
NodeSelectorTerm: matchExpressions [NodeSelectorRequirement], matchFields [NodeSelectorRequirement]
ObjectFieldSelector: apiVersion text, fieldPath text
ObjectMeta: annotations {text}, creationTimestamp any, deletionGracePeriodSeconds any,
  deletionTimestamp any, finalizers [text], generateName any, generation any, labels {text},
  managedFields any, name text, namespace text, ownerReferences any, resourceVersion any, selfLink
  any, uid any
PersistentVolumeClaimSpec: accessModes [text], dataSource TypedLocalObjectReference, dataSourceRef
  TypedObjectReference, resources VolumeResourceRequirements, selector LabelSelector,
  storageClassName text, volumeAttributesClassName text, volumeMode Filesystem Block, volumeName
  text
PersistentVolumeClaimTemplate: metadata ObjectMeta, spec PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource: claimName text, readOnly boolean
PhotonPersistentDiskVolumeSource: fsType text, pdID text
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm],
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm]
PodAffinityTerm: labelSelector LabelSelector, matchLabelKeys [text], mismatchLabelKeys [text],
  namespaceSelector LabelSelector, namespaces [text], topologyKey text
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm],
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm]
PodCertificateProjection: certificateChainPath text, credentialBundlePath text, keyPath text,
  keyType text, maxExpirationSeconds integer, signerName text, userAnnotations {text}
PodDNSConfig: nameservers [text], options [PodDNSConfigOption], searches [text]
PodDNSConfigOption: name text, value text
PodOS: name text
PodReadinessGate: conditionType text
PodResourceClaim: name text, resourceClaimName text, resourceClaimTemplateName text
PodSchedulingGate: name text
PodSchedulingGroup: podGroupName text
PodSecurityContext: appArmorProfile AppArmorProfile, fsGroup integer, fsGroupChangePolicy text,
  runAsGroup integer, runAsNonRoot boolean, runAsUser integer, seLinuxChangePolicy text,
  seLinuxOptions SELinuxOptions, seccompProfile SeccompProfile, supplementalGroups [integer],
  supplementalGroupsPolicy text, sysctls [Sysctl], windowsOptions WindowsSecurityContextOptions
PodSpec: activeDeadlineSeconds integer, affinity Affinity, automountServiceAccountToken boolean,
  containers [Container], dnsConfig PodDNSConfig, dnsPolicy ClusterFirst ClusterFirstWithHostNet
  Default None, enableServiceLinks boolean, ephemeralContainers [EphemeralContainer], hostAliases
  [HostAlias], hostIPC boolean, hostNetwork boolean, hostPID boolean, hostUsers boolean, hostname
  text, hostnameOverride text, imagePullSecrets [LocalObjectReference], initContainers [Container],
  nodeName text, nodeSelector {text}, os PodOS, overhead {quantity}, preemptionPolicy Never
  PreemptLowerPriority, priority integer, priorityClassName text, readinessGates [PodReadinessGate],
  resourceClaims [PodResourceClaim], resources ResourceRequirements, restartPolicy Always OnFailure
  Never, runtimeClassName text, schedulerName text, schedulingGates [PodSchedulingGate],
  schedulingGroup PodSchedulingGroup, securityContext PodSecurityContext, serviceAccount text,
  serviceAccountName text, setHostnameAsFQDN boolean, shareProcessNamespace boolean, subdomain text,
  terminationGracePeriodSeconds integer, tolerations [Toleration], topologySpreadConstraints
  [TopologySpreadConstraint], volumes [Volume]
PodTemplateSpec: metadata ObjectMeta, spec PodSpec
PortworxVolumeSource: fsType text, readOnly boolean, volumeID text
PreferredSchedulingTerm: preference NodeSelectorTerm, weight integer
Probe: exec ExecAction, failureThreshold integer, grpc GRPCAction, httpGet HTTPGetAction,
  initialDelaySeconds integer, periodSeconds integer, successThreshold integer, tcpSocket
  TCPSocketAction, terminationGracePeriodSeconds integer, timeoutSeconds integer
ProjectedVolumeSource: defaultMode integer, sources [VolumeProjection]
QuobyteVolumeSource: group text, readOnly boolean, registry text, tenant text, user text, volume
  text
RBDVolumeSource: fsType text, image text, keyring text, monitors [text], pool text, readOnly
  boolean, secretRef LocalObjectReference, user text
ResourceClaim: name text, request text
ResourceFieldSelector: containerName text, divisor quantity, resource text
ResourceRequirements: claims [ResourceClaim], limits {quantity}, requests {quantity}
SELinuxOptions: level text, role text, type text, user text
ScaleIOVolumeSource: fsType text, gateway text, protectionDomain text, readOnly boolean, secretRef
  LocalObjectReference, sslEnabled boolean, storageMode text, storagePool text, system text,
  volumeName text
SeccompProfile: localhostProfile text, type Localhost RuntimeDefault Unconfined
SecretEnvSource: name text, optional boolean
SecretKeySelector: key text, name text, optional boolean
SecretProjection: items [KeyToPath], name text, optional boolean
SecretVolumeSource: defaultMode integer, items [KeyToPath], optional boolean, secretName text
SecurityContext: allowPrivilegeEscalation boolean, appArmorProfile AppArmorProfile, capabilities
  Capabilities, privileged boolean, procMount text, readOnlyRootFilesystem boolean, runAsGroup
  integer, runAsNonRoot boolean, runAsUser integer, seLinuxOptions SELinuxOptions, seccompProfile
  SeccompProfile, windowsOptions WindowsSecurityContextOptions
ServiceAccountTokenProjection: audience text, expirationSeconds integer, path text
SleepAction: seconds integer
StorageOSVolumeSource: fsType text, readOnly boolean, secretRef LocalObjectReference, volumeName
  text, volumeNamespace text
Sysctl: name text, value text
TCPSocketAction: host text, port integer-or-text
Toleration: effect NoSchedule PreferNoSchedule NoExecute, key text, operator Exists Equal Lt Gt,
  tolerationSeconds integer, value text
TopologySpreadConstraint: labelSelector LabelSelector, matchLabelKeys [text], maxSkew integer,
  minDomains integer, nodeAffinityPolicy text, nodeTaintsPolicy text, topologyKey text,
  whenUnsatisfiable DoNotSchedule ScheduleAnyway
TypedLocalObjectReference: apiGroup text, kind text, name text
TypedObjectReference: apiGroup text, kind text, name text, namespace text
Volume: awsElasticBlockStore AWSElasticBlockStoreVolumeSource, azureDisk AzureDiskVolumeSource,
  azureFile AzureFileVolumeSource, cephfs CephFSVolumeSource, cinder CinderVolumeSource, configMap
  ConfigMapVolumeSource, csi CSIVolumeSource, downwardAPI DownwardAPIVolumeSource, emptyDir
  EmptyDirVolumeSource, ephemeral EphemeralVolumeSource, fc FCVolumeSource, flexVolume
  FlexVolumeSource, flocker FlockerVolumeSource, gcePersistentDisk GCEPersistentDiskVolumeSource,
  gitRepo GitRepoVolumeSource, glusterfs GlusterfsVolumeSource, hostPath HostPathVolumeSource, image
  ImageVolumeSource, iscsi ISCSIVolumeSource, name text, nfs NFSVolumeSource, persistentVolumeClaim
  PersistentVolumeClaimVolumeSource, photonPersistentDisk PhotonPersistentDiskVolumeSource,
  portworxVolume PortworxVolumeSource, projected ProjectedVolumeSource, quobyte QuobyteVolumeSource,
  rbd RBDVolumeSource, scaleIO ScaleIOVolumeSource, secret SecretVolumeSource, storageos
  StorageOSVolumeSource, vsphereVolume VsphereVirtualDiskVolumeSource
VolumeDevice: devicePath text, name text
VolumeMount: mountPath text, mountPropagation None HostToContainer Bidirectional, name text,
  readOnly boolean, recursiveReadOnly text, subPath text, subPathExpr text
VolumeProjection: clusterTrustBundle ClusterTrustBundleProjection, configMap ConfigMapProjection,
  downwardAPI DownwardAPIProjection, podCertificate PodCertificateProjection, secret
  SecretProjection, serviceAccountToken ServiceAccountTokenProjection
VolumeResourceRequirements: limits {quantity}, requests {quantity}
VsphereVirtualDiskVolumeSource: fsType text, storagePolicyID text, storagePolicyName text,
  volumePath text
WeightedPodAffinityTerm: podAffinityTerm PodAffinityTerm, weight integer
WindowsSecurityContextOptions: gmsaCredentialSpec text, gmsaCredentialSpecName text, hostProcess
  boolean, runAsUserName text
"""
